// Package openapi describes the routes of the REST API and of the doors: as an OpenAPI 3.1
// document, and as a page for readers.
package openapi

import (
	"reflect"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// Route is a route and its description.
type Route struct {
	httpserver.Route
	// Operation is nil if the document leaves the route out.
	Operation *Operation
}

// Served returns the routes without their descriptions.
func Served(routes []Route) []httpserver.Route {
	all := make([]httpserver.Route, len(routes))
	for i, r := range routes {
		all[i] = r.Route
	}
	return all
}

// Operation describes a route. The problems that follow from its access, parameters and body
// need not be listed: the document includes them.
type Operation struct {
	ID      string // unique, for generated clients
	Tag     wire.Tag
	Summary string
	Doc     string // more than the summary, in Markdown; "" for none
	Query   []Param
	// RequestHeaders are the headers of the request that the route reads.
	RequestHeaders []Param
	// IfMatch reports whether the route reads the header If-Match.
	IfMatch bool
	// ExpectsETags reports whether the body contains the ETags of what it changes.
	ExpectsETags bool
	// Body is a value of the type of the JSON body, nil if there is none.
	Body         any
	BodyOptional bool
	// BodyTypes are further media types of the body. The document does not describe them.
	BodyTypes []string
	Answers   []Answer
	// Conflict reports whether the route may answer 409, as routes that change something do.
	Conflict bool
	// Gone reports whether the route may answer 410.
	Gone bool

	input reflect.Type // of a declared operation; the comments of its fields describe the parameters
}

// Param is a parameter of the query or a header of the request.
type Param struct {
	Name     string
	Doc      string
	Required bool
	Enum     []string
	Integer  bool
	Boolean  bool
	Repeated bool // it may be sent more than once

	field string // of the input, whose comment is the description; "" if Doc is
}

func (o *Operation) hasBody() bool { return o.Body != nil || o.BodyTypes != nil }

// Answer is one response of an operation. A problem may be sent instead of it.
type Answer struct {
	Status int
	Doc    string
	// Body is a value of the type of the JSON body, nil if there is none.
	Body any
	// Types are further media types of the body. The document does not describe them.
	Types   []string
	Headers []Header
}

// Header is a header of a response. The document has one header of each name.
type Header struct {
	Name, Doc string
	Integer   bool
	Enum      []string
}

// Headers that several operations use.
var (
	RetryAfter      = Header{Name: "Retry-After", Integer: true, Doc: "The whole seconds to wait before the next try. It is missing where waiting does not help."}
	RateLimit       = Header{Name: "RateLimit", Doc: "What each rule has left, as in draft-ietf-httpapi-ratelimit-headers-10: r is the number of requests, t the seconds until there are more."}
	RateLimitPolicy = Header{Name: "RateLimit-Policy", Doc: "The rules of the policy, as in draft-ietf-httpapi-ratelimit-headers-10: q requests in w seconds."}
	Location        = Header{Name: "Location", Doc: "The path of what was created."}
	ETag            = Header{Name: "ETag", Doc: "The state of what is answered, in quotes, for If-Match."}
	Disposition     = Header{Name: "Content-Disposition", Doc: "The name of the file."}
	requestID       = Header{Name: "X-Request-Id", Doc: "The id of the request, which the log and problems name. It is the request's own X-Request-Id, if that is one."}
	authenticate    = Header{Name: "WWW-Authenticate", Doc: "How to authenticate."}
)

// Union is a body of one of several types, each represented by a value.
type Union struct {
	Name, Doc string
	Of        []any
}
