// Package openapi describes the routes of the REST API: an OpenAPI 3.1 document, and
// the same as a page for people.
package openapi

import "github.com/stint-dev/stint/internal/httpserver"

// Route is a route and its description.
type Route struct {
	httpserver.Route
	// Operation is nil if the document leaves the route out.
	Operation *Operation
}

// Operation describes a route.
type Operation struct {
	ID      string // unique, for generated clients
	Tag     string
	Summary string
	Query   []Param
	// IfMatch reports whether the route reads that header.
	IfMatch bool
	// Body is a value of the type of the JSON body, nil if there is none.
	Body         any
	BodyOptional bool
	// BodyTypes are media types of the body that are not described further.
	BodyTypes []string
	Answers   []Answer
}

// Param is a query parameter.
type Param struct {
	Name     string
	Doc      string
	Required bool
	Enum     []string
	Integer  bool
}

func (o *Operation) hasBody() bool { return o.Body != nil || o.BodyTypes != nil }

// Answer is one answer of an operation. Each may also answer with a problem.
type Answer struct {
	Status int
	Doc    string
	// Body is a value of the type of the JSON body, nil if there is none.
	Body any
	// Types are media types of the body that are not described further.
	Types []string
}

// AnyOf is a body of one of several types, each represented by a value.
type AnyOf []any
