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
