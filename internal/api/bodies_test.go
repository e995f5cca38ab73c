package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// bodySchema is the part of a schema of openapi.json that these tests read.
type bodySchema struct {
	Ref        string `json:"$ref"`
	Type       any    // a text or several
	Properties map[string]*bodySchema
	Items      *bodySchema
	AnyOf      []*bodySchema
	OneOf      []*bodySchema
}

// bodies are the JSON bodies of openapi.json.
type bodies struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]*bodySchema }
}

// operation is an operation of openapi.json.
type operation struct {
	OperationID string
	Parameters  []struct{ Name string }
	RequestBody struct {
		Content map[string]struct{ Schema *bodySchema }
	}
}

var pathParam = regexp.MustCompile(`\{[^}]+\}`)

// types returns the types that a schema allows, and the schemas that describe them.
func (b *bodies) types(s *bodySchema) (types []string, all []*bodySchema) {
	if s.Ref != "" {
		return b.types(b.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]])
	}
	switch t := s.Type.(type) {
	case string:
		types = append(types, t)
	case []any:
		for _, one := range t {
			types = append(types, one.(string))
		}
	}
	all = append(all, s)
	for _, part := range append(s.AnyOf, s.OneOf...) {
		more, parts := b.types(part)
		types, all = append(types, more...), append(all, parts...)
	}
	return types, all
}

// wrongBody is a body with one invalid field.
type wrongBody struct{ field, body string }

// ofAnotherType contains an invalid value for each type.
var ofAnotherType = map[string]string{"string": "7", "integer": `"x"`, "number": `"x"`, "boolean": `"x"`, "array": `"x"`, "object": `"x"`}

// wrong returns bodies with one field that is null or of another type. at is the path of the
// value, and within returns the body with the value.
func (b *bodies) wrong(s *bodySchema, at string, within func(value string) string) (found []wrongBody) {
	types, parts := b.types(s)
	if at != "" && len(types) > 0 {
		if !slices.Contains(types, "null") {
			found = append(found, wrongBody{at, within("null")})
		}
		named := slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
		if len(named) == 1 {
			found = append(found, wrongBody{at, within(ofAnotherType[named[0]])})
		}
	}
	for _, part := range parts {
		for name, field := range part.Properties {
			found = append(found, b.wrong(field, strings.TrimPrefix(at+"."+name, "."), func(value string) string {
				return within(`{"` + name + `":` + value + `}`)
			})...)
		}
		if part.Items != nil {
			found = append(found, b.wrong(part.Items, at+"[0]", func(value string) string { return within("[" + value + "]") })...)
		}
	}
	return found
}

// TestBodiesRejectFieldsOfWrongType sends each field that openapi.json describes as
// null, unless null is allowed, and as a value of another type. No database is asked before the
// body is read, so that one of them is enough.
func TestBodiesRejectFieldsOfWrongType(t *testing.T) {
	n := startNode(t)
	var b bodies
	if err := json.Unmarshal([]byte(n.send(http.MethodGet, n.admin+"/openapi.json", "").body), &b); err != nil {
		t.Fatal(err)
	}
	operations, sent := 0, 0
	for path, methods := range b.Paths {
		base := n.admin
		if strings.HasPrefix(path, wire.PathCheck) || strings.HasPrefix(path, wire.PathHolds) || strings.HasPrefix(path, wire.PathReport) && path != wire.PathReports {
			base = n.check
		}
		path = pathParam.ReplaceAllString(path, "1")
		for method, text := range methods {
			var op operation
			if text[0] != '{' { // the parameters of all
				continue
			}
			if err := json.Unmarshal(text, &op); err != nil {
				t.Fatal(err)
			}
			content := op.RequestBody.Content["application/json"]
			if content.Schema == nil || strings.HasPrefix(op.OperationID, "import") {
				continue
			}
			operations++
			headers := []string{"Authorization: Bearer " + n.tokens[administer]}
			for _, p := range op.Parameters {
				if p.Name == "If-Match" {
					headers = append(headers, "If-Match: *")
				}
			}
			for _, w := range b.wrong(content.Schema, "", func(value string) string { return value }) {
				if strings.HasSuffix(path, "/batch") && strings.Contains(w.field, "[") {
					continue // the response is the problem of another field
				}
				sent++
				a := n.send(strings.ToUpper(method), base+path, w.body, headers...)
				if a.status != http.StatusUnprocessableEntity {
					t.Errorf("%s: %s: got %d, want 422: %s", op.OperationID, w.body, a.status, a.body)
				} else if p := n.wantProblem(a, http.StatusUnprocessableEntity, w.field); strings.Contains(w.body, "null") && !strings.Contains(p.Detail, "null") {
					t.Errorf("%s: %s: got the detail %q, want it to contain null", op.OperationID, w.body, p.Detail)
				}
			}
		}
	}
	if operations < 25 || sent < 150 {
		t.Errorf("tested %d operations with %d wrong bodies, want at least 25 with 150", operations, sent)
	}
}
