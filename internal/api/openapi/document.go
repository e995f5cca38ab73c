package openapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// node is an object of an OpenAPI document.
type node = map[string]any

// document is an OpenAPI document under construction.
type document struct {
	schemas         *schemas
	headers         node
	responses       node
	securitySchemes node
	tags            []node
}

// newDocument builds the OpenAPI 3.1 document from the table of routes and the types of
// package wire, so that it cannot differ from them.
func newDocument(version string, routes []Route) (node, error) {
	d := &document{schemas: newSchemas(), headers: node{}, responses: node{}, securitySchemes: node{}}
	listeners := map[string][]httpserver.Listener{}
	for i := range routes {
		path, _ := pathOf(routes[i].Path)
		if !slices.Contains(listeners[path], routes[i].Listener) {
			listeners[path] = append(listeners[path], routes[i].Listener)
		}
	}
	paths := node{}
	for i := range routes {
		r := &routes[i]
		if r.Operation == nil {
			continue
		}
		path, params := pathOf(r.Path)
		item, _ := paths[path].(node)
		if item == nil {
			item = node{"servers": serversOf(listeners[path])}
			paths[path] = item
		}
		method := strings.ToLower(r.Method)
		if r.Method == httpserver.AnyMethod {
			method = "get"
		}
		item[method] = d.operation(r, params)
	}
	return node{
		"openapi": "3.1.0",
		"info": node{
			"title": "Stint", "version": cmp.Or(version, "dev"),
			"description": "Stint detects abuse and blocks it: exact limits for each key, and blocks of repeat offenders. " +
				"Checks are answered on one listener, everything else on the admin listener.",
			"license": node{"name": "MIT", "identifier": "MIT"},
		},
		"servers": serversOf([]httpserver.Listener{httpserver.Admin}),
		"tags":    d.tags,
		"paths":   paths,
		"components": node{
			"schemas": d.schemas.named, "headers": d.headers, "responses": d.responses, "securitySchemes": d.securitySchemes,
		},
	}, d.schemas.err
}

// pathOf converts "/v1/blocks/:id" into "/v1/blocks/{id}" and returns the names in it.
func pathOf(route string) (path string, names []string) {
	parts := strings.Split(route, "/")
	for i, part := range parts {
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			parts[i] = "{" + name + "}"
			names = append(names, name)
		}
	}
	return strings.Join(parts, "/"), names
}

// serversOf returns the addresses of listeners. The document is served by the admin listener,
// so that one needs no address.
func serversOf(listeners []httpserver.Listener) []node {
	var all []node
	for _, l := range listeners {
		if l == httpserver.Admin {
			all = append(all, node{"url": "/", "description": "The admin listener."})
			continue
		}
		all = append(all, node{
			"url": "{scheme}://{address}", "description": "The listener for checks.",
			"variables": node{
				"scheme":  node{"default": "http", "enum": []string{"http", "https"}, "description": "https if the listener has a certificate."},
				"address": node{"default": "127.0.0.1:8080", "description": "The node's setting listen, as clients reach it."},
			},
		})
	}
	return all
}

func (d *document) operation(r *Route, pathParams []string) node {
	op := r.Operation
	d.tag(op.Tag)
	out := node{"operationId": op.ID, "tags": []string{op.Tag.Name}, "summary": d.schemas.described("operation "+op.ID, op.Summary), "security": d.security(r)}
	doc := op.Doc
	if r.Access != identity.Public {
		doc = strings.TrimSpace(doc + "\n\nNeeds the access \"" + string(r.Access) + "\".")
	}
	if doc != "" {
		out["description"] = doc
	}
	var params []node
	for _, name := range pathParams {
		params = append(params, d.param("path", Param{Name: name, Doc: pathNames[name], Required: true}))
	}
	for _, p := range op.Query {
		if p.field != "" {
			field, _ := op.input.FieldByName(p.field)
			owner, _ := ownerOf(op.input, field)
			p.Doc = d.schemas.comments.field(owner, p.field, p.Name)
		}
		params = append(params, d.param("query", p))
	}
	if op.IfMatch {
		params = append(params, d.param("header", Param{Name: "If-Match", Doc: "The ETag of what the change expects, in quotes, or * for any."}))
	}
	for _, p := range op.RequestHeaders {
		params = append(params, d.param("header", p))
	}
	if params != nil {
		out["parameters"] = params
	}
	if op.hasBody() {
		out["requestBody"] = node{"required": !op.BodyOptional, "content": d.content(op.Body, op.BodyTypes)}
	}
	out["responses"] = d.answers(r, len(pathParams) > 0)
	return out
}

// tag adds a tag to the document unless it is already there.
func (d *document) tag(tag wire.Tag) {
	if !slices.ContainsFunc(d.tags, func(t node) bool { return t["name"] == tag.Name }) {
		d.tags = append(d.tags, node{"name": tag.Name, "description": d.schemas.described("tag "+tag.Name, tag.Doc)})
	}
}

// security returns the credentials that a route accepts.
func (d *document) security(r *Route) []node {
	if r.Access == identity.Public {
		return []node{}
	}
	name, scheme := "token", node{"type": "http", "scheme": "bearer", "description": "An API token; its scopes say what it may do."}
	if r.TokenHeader != "" {
		name = "proxyToken"
		scheme = node{"type": "apiKey", "in": "header", "name": string(r.TokenHeader), "description": "The token of a proxy, in the header that the setting forward-token-header names."}
	}
	d.securitySchemes[name] = scheme
	needed := []node{{name: []string{}}}
	if r.Listener == httpserver.Checks { // a token is needed only with the setting check-auth
		needed = append(needed, node{})
	}
	return needed
}

func (d *document) param(in string, p Param) node {
	schema := schemaOf(p.Integer, p.Enum)
	if p.Boolean {
		schema["type"] = "boolean"
	}
	if p.Repeated {
		schema = node{"type": "array", "items": schema}
	}
	return node{"name": p.Name, "in": in, "required": p.Required, "description": d.schemas.described(in+" parameter "+p.Name, p.Doc), "schema": schema}
}

func schemaOf(isInteger bool, enum []string) node {
	schema := node{"type": "string"}
	if isInteger {
		schema = node{"type": "integer", "format": "int64"}
	}
	if enum != nil {
		schema["enum"] = enum
	}
	return schema
}

// content describes a body: JSON of the type of a value, or other media types.
func (d *document) content(body any, types []string) node {
	content := node{}
	for _, media := range types {
		content[media] = node{"schema": node{"type": "string"}}
		switch media {
		case "application/octet-stream":
			content[media] = node{"schema": node{"type": "string", "format": "binary"}}
		case "application/json", "application/x-ndjson":
			content[media] = node{"schema": node{}}
		case "text/event-stream":
			content[media] = node{"schema": d.schemas.of(wire.Event{})} // of the data of each event
		}
	}
	if body != nil {
		content[fiber.MIMEApplicationJSON] = node{"schema": d.schemas.of(body)}
	}
	return content
}

func (d *document) answers(r *Route, hasPathParams bool) node {
	op := r.Operation
	answers := node{"default": d.problem(0)}
	for _, status := range problemsOf(r, hasPathParams) {
		answers[strconv.Itoa(status)] = d.problem(status)
	}
	for _, a := range op.Answers {
		content := d.content(a.Body, a.Types)
		if a.Status >= http.StatusBadRequest { // the response may be a problem instead
			content[wire.ProblemType] = d.problemContent()
		}
		answer := node{"description": d.schemas.described("answer "+strconv.Itoa(a.Status)+" of "+op.ID, a.Doc), "headers": d.headersOf(append(a.Headers, requestID))}
		if len(content) > 0 {
			answer["content"] = content
		}
		answers[strconv.Itoa(a.Status)] = answer
	}
	return answers
}

// problemsOf returns the statuses of the problems that a route may answer with, in addition to
// those that apply to every request.
func problemsOf(r *Route, hasPathParams bool) []int {
	op := r.Operation
	all := []int{http.StatusBadRequest, http.StatusInternalServerError}
	if r.Access != identity.Public {
		all = append(all, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable)
		if r.Listener == httpserver.Admin {
			all = append(all, http.StatusForbidden)
		}
		if !r.AnyHost {
			all = append(all, http.StatusMisdirectedRequest)
		}
	}
	if hasPathParams || op.Query != nil {
		all = append(all, http.StatusNotFound)
	}
	if op.hasBody() {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if op.IfMatch || op.ExpectsETags {
		all = append(all, http.StatusPreconditionFailed, http.StatusPreconditionRequired)
	}
	if op.Conflict || r.Listener == httpserver.Admin && r.Method != http.MethodGet {
		all = append(all, http.StatusConflict)
	}
	if op.Gone {
		all = append(all, http.StatusGone)
	}
	return all
}

// problem returns a reference to the problem response of a status, 0 for any other status.
func (d *document) problem(status int) node {
	name, doc := "Problem", "Any other problem."
	headers := []Header{requestID}
	if status != 0 {
		name = strings.ReplaceAll(http.StatusText(status), " ", "")
		doc = problems[status]
	}
	reference := node{"$ref": "#/components/responses/" + name}
	if d.responses[name] != nil { // reflecting it for each operation would take most of the document's time
		return reference
	}
	switch status {
	case http.StatusUnauthorized:
		headers = append(headers, authenticate)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		headers = append(headers, RetryAfter)
	}
	d.responses[name] = node{"description": d.schemas.described("problem "+strconv.Itoa(status), doc), "headers": d.headersOf(headers), "content": node{wire.ProblemType: d.problemContent()}}
	return reference
}

func (d *document) problemContent() node { return node{"schema": d.schemas.of(wire.Problem{})} }

func (d *document) headersOf(headers []Header) node {
	out := node{}
	for _, h := range headers {
		d.headers[h.Name] = node{"description": d.schemas.described("header "+h.Name, h.Doc), "schema": schemaOf(h.Integer, h.Enum)}
		out[h.Name] = node{"$ref": "#/components/headers/" + h.Name}
	}
	return out
}
