package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/wire"
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

// The routes of each listener; see package routes.
var (
	onChecks = routes.OnChecks
	onAdmin  = routes.OnAdmin
	streamed = routes.Streamed
	ok       = routes.OK
	callerOf = routes.CallerOf
)

// singlePage returns a page that holds all items.
func singlePage[T, W any](all []T, convert func(T) W) wire.Page[W] {
	return routes.SinglePage(all, convert)
}

var (
	limitParam  = routes.Limit
	cursorParam = routes.Cursor
	reasonParam = []openapi.Param{{Name: "reason", Doc: "The reason, where the body has none."}}
	endParams   = []openapi.Param{reasonParam[0], {Name: "source", Doc: "The source in the body, where the body has none."}, {Name: "pattern", Doc: "The pattern in the body, where the body has none."}}
)

// The headers of answers.
var (
	location = []openapi.Header{openapi.Location}
	file     = routes.File
)
