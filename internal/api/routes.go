package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// route is a route and its description in the OpenAPI document.
type route = openapi.Route

// The methods of the routes.
const (
	get   = http.MethodGet
	post  = http.MethodPost
	put   = http.MethodPut
	patch = http.MethodPatch
	del   = http.MethodDelete
)

// onChecks returns a route of the listener for checks.
func onChecks(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) route {
	return newRoute(httpserver.Checks, method, path, access, h, o)
}

// onAdmin returns a route of the admin listener.
func onAdmin(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) route {
	return newRoute(httpserver.Admin, method, path, access, h, o)
}

// streamed is onAdmin for a handler that reads its body as it arrives.
func streamed(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) route {
	r := onAdmin(method, path, access, h, o)
	r.Streams = true
	return r
}

func newRoute(l httpserver.Listener, method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) route {
	return route{Route: httpserver.Route{Listener: l, Method: method, Path: path, Access: access, Handler: h}, Operation: o}
}

var (
	limitParam  = openapi.Param{Name: "limit", Doc: "How many items a page holds, 1 to 1000; 100 where it is left out.", Integer: true}
	cursorParam = openapi.Param{Name: "cursor", Doc: "The next_cursor of the page before."}
	keyParams   = []openapi.Param{
		{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true},
		{Name: "policy", Doc: "The policy to ask by name instead of the key's own."},
	}
	reasonParam    = []openapi.Param{{Name: "reason", Doc: "Why, where the body does not say it."}}
	timeRangeQuery = []openapi.Param{
		{Name: "last", Doc: "The span that ends now, for example 15m, 24h or 7d; 1h where no span is named."},
		{Name: "from", Doc: "RFC 3339; the span begins here."},
		{Name: "to", Doc: "RFC 3339; the span ends before this; now where it is left out."},
	}
	policyParam = openapi.Param{Name: "policy", Doc: "Only under the policy of this name."}
)

// The headers of answers.
var (
	location = []openapi.Header{openapi.Location}
	file     = []openapi.Header{openapi.Disposition}
)

func ok(doc string, body any) []openapi.Answer {
	return []openapi.Answer{{Status: http.StatusOK, Doc: doc, Body: body}}
}
