package openapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// node is an object of an OpenAPI document.
type node = map[string]any

// newDocument builds the OpenAPI 3.1 document from the table of routes and the types of
// package wire, so that it cannot differ from them.
func newDocument(version string, routes []Route) node {
	schemas := newSchemas()
	schemas.of(wire.Event{}) // what the data of server-sent events is
	paths := map[string]node{}
	for i := range routes {
		r := &routes[i]
		if r.Operation == nil {
			continue
		}
		path, params := openAPIPath(r.Path)
		if paths[path] == nil {
			paths[path] = node{}
		}
		paths[path][strings.ToLower(r.Method)] = describe(r, params, schemas)
	}
	if version == "" {
		version = "dev"
	}
	return node{
		"openapi": "3.1.0",
		"info": node{
			"title": "Stint", "version": version,
			"description": "Stint tells clients \"not now\" exactly, and keeps abusers out. " +
				"Checks are answered on one listener, everything else on the admin listener.",
			"license": node{"name": "MIT", "identifier": "MIT"},
		},
		"servers": []node{{"url": "/"}},
		"paths":   paths,
		"components": node{
			"schemas": schemas.named,
			"securitySchemes": node{"token": node{
				"type": "http", "scheme": "bearer", "description": "An API token; its scopes say what it may do.",
			}},
		},
	}
}

// openAPIPath turns "/v1/blocks/:id" into "/v1/blocks/{id}".
func openAPIPath(path string) (string, []string) {
	parts := strings.Split(path, "/")
	var params []string
	for i, part := range parts {
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			parts[i] = "{" + name + "}"
			params = append(params, name)
		}
	}
	return strings.Join(parts, "/"), params
}

func describe(r *Route, pathParams []string, schemas *schemas) node {
	op := r.Operation
	out := node{"operationId": op.ID, "tags": []string{op.Tag}, "summary": op.Summary}
	var params []node
	for _, name := range pathParams {
		params = append(params, node{"name": name, "in": "path", "required": true, "schema": node{"type": "string"}})
	}
	for _, p := range op.Query {
		params = append(params, describeParam(p))
	}
	if op.IfMatch {
		params = append(params, node{
			"name": "If-Match", "in": "header", "schema": node{"type": "string"},
			"description": "The version that is expected, in quotes, or * for any.",
		})
	}
	if params != nil {
		out["parameters"] = params
	}
	if op.hasBody() {
		out["requestBody"] = describeBody(op, schemas)
	}
	if r.Access != identity.Public {
		out["security"] = []node{{"token": []string{}}}
		out["description"] = "Needs the access \"" + string(r.Access) + "\"."
	}
	out["responses"] = describeAnswers(op, schemas)
	return out
}

func describeParam(p Param) node {
	schema := node{"type": "string"}
	if p.Integer {
		schema["type"] = "integer"
	}
	if p.Enum != nil {
		schema["enum"] = p.Enum
	}
	return node{"name": p.Name, "in": "query", "required": p.Required, "description": p.Doc, "schema": schema}
}

func describeBody(op *Operation, schemas *schemas) node {
	content := node{}
	if op.Body != nil {
		content[fiber.MIMEApplicationJSON] = node{"schema": schemas.of(op.Body)}
	}
	for _, media := range op.BodyTypes {
		content[media] = node{}
	}
	return node{"required": !op.BodyOptional, "content": content}
}

func describeAnswers(op *Operation, schemas *schemas) node {
	answers := node{}
	problem := node{wire.ProblemType: node{"schema": schemas.of(wire.Problem{})}}
	for _, a := range op.Answers {
		content := node{}
		if a.Body != nil {
			content[fiber.MIMEApplicationJSON] = node{"schema": schemas.of(a.Body)}
		}
		for _, media := range a.Types {
			content[media] = node{}
		}
		if a.Status >= http.StatusBadRequest { // there may be a problem instead
			content[wire.ProblemType] = problem[wire.ProblemType]
		}
		answer := node{"description": a.Doc}
		if len(content) > 0 {
			answer["content"] = content
		}
		answers[strconv.Itoa(a.Status)] = answer
	}
	answers["default"] = node{"description": "What was wrong.", "content": problem}
	return answers
}
