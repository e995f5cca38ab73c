package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
)

// route is a route and its description in the OpenAPI document.
type route = openapi.Route

// The methods of the routes.
const (
	get  = http.MethodGet
	post = http.MethodPost
	del  = http.MethodDelete
)

// The routes of each listener; see package routes.
var (
	onChecks = routes.OnChecks
	onAdmin  = routes.OnAdmin
	ok       = routes.OK
	callerOf = routes.CallerOf
)

// file is the header of answers that are files.
var file = routes.File
