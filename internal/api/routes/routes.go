// Package routes is shared by the handlers of the REST API. It defines routes with their
// operations, common parameters, and pages.
package routes

import (
	"io"
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// OnChecks returns a route of the listener for checks.
func OnChecks(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	return newRoute(httpserver.Checks, method, path, access, h, o)
}

// OnAdmin returns a route of the admin listener.
func OnAdmin(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	return newRoute(httpserver.Admin, method, path, access, h, o)
}

func newRoute(l httpserver.Listener, method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	return openapi.Route{Route: httpserver.Route{Listener: l, Method: method, Path: path, Access: access, Handler: h}, Operation: o}
}

// File is the header of a response that a browser saves as a file.
var File = []openapi.Header{openapi.Disposition}

// OK returns the responses of an operation that only succeeds with 200.
func OK(doc string, body any) []openapi.Answer {
	return []openapi.Answer{{Status: http.StatusOK, Doc: doc, Body: body}}
}

// CallerOf returns the caller of a request in the form of the use cases.
func CallerOf(c *httpserver.Call) admin.Caller {
	return admin.Caller{Actor: c.Actor(), Address: c.Address, Access: c.Access()}
}

// BodyReader returns the body as it arrives, for the streamed routes.
func BodyReader(c *httpserver.Call) io.Reader {
	return httpserver.BodyReader(c.Ctx.Context(), httpserver.ReadTimeout)
}
