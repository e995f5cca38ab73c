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
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
)

// OnChecks returns a route of the listener for checks.
func OnChecks(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	return newRoute(httpserver.Checks, method, path, access, h, o)
}

// OnAdmin returns a route of the admin listener.
func OnAdmin(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	return newRoute(httpserver.Admin, method, path, access, h, o)
}

// Streamed is OnAdmin for a handler that reads its body as it arrives.
func Streamed(method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	r := OnAdmin(method, path, access, h, o)
	r.Streams = true
	return r
}

func newRoute(l httpserver.Listener, method, path string, access identity.Access, h httpserver.Handler, o *openapi.Operation) openapi.Route {
	return openapi.Route{Route: httpserver.Route{Listener: l, Method: method, Path: path, Access: access, Handler: h}, Operation: o}
}

// The parameters that select a page.
var (
	Limit  = openapi.Param{Name: "limit", Doc: "How many items a page holds, 1 to 1000; 100 if omitted.", Integer: true}
	Cursor = openapi.Param{Name: "cursor", Doc: "The next_cursor of the page before."}
)

// WholeListPage returns one page of a list of WholeListParams.
func WholeListPage[T, W any](page paging.Page[T], convert func(T) W) wire.Page[W] {
	out := CursorPage(page.Items, page.Next, convert)
	out.Total = &page.Total
	return out
}

// File is the header of a response that a browser saves as a file.
var File = []openapi.Header{openapi.Disposition}

// OK returns the responses of an operation that only succeeds with 200.
func OK(doc string, body any) []openapi.Answer {
	return []openapi.Answer{{Status: http.StatusOK, Doc: doc, Body: body}}
}

// OKTagged is OK for a resource with an ETag.
func OKTagged(doc string, body any) []openapi.Answer {
	return []openapi.Answer{{Status: http.StatusOK, Doc: doc, Body: body, Headers: []openapi.Header{openapi.ETag}}}
}

// CallerOf returns the caller of a request in the form of the use cases.
func CallerOf(c *httpserver.Call) admin.Caller {
	return admin.Caller{Actor: c.Actor(), Address: c.Address, Access: c.Access()}
}

// BodyReader returns the body as it arrives, for the streamed routes.
func BodyReader(c *httpserver.Call) io.Reader {
	return httpserver.BodyReader(c.Ctx.Context(), httpserver.ReadTimeout)
}

// CursorPage returns one page of a list. next is the cursor of the next page, "" for the last
// page.
func CursorPage[T, W any](items []T, next string, convert func(T) W) wire.Page[W] {
	page := SinglePage(items, convert)
	page.NextCursor, page.Total = wire.NullString(next), nil // counting all would cost too much
	return page
}

// SinglePage returns a page that holds all items. Use CursorPage for a list with a limit.
func SinglePage[T, W any](all []T, convert func(T) W) wire.Page[W] {
	total := len(all)
	page := wire.Page[W]{Items: make([]W, 0, total), Total: &total}
	for _, item := range all {
		page.Items = append(page.Items, convert(item))
	}
	return page
}
