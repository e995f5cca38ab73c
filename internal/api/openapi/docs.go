package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS string

var docsTemplate = template.Must(template.New("docs").Funcs(template.FuncMap{
	"type": typeOf, "last": lastPart, "has": slices.Contains[[]string],
}).Parse(docsHTML))

// docsPolicy is the Content-Security-Policy of the page: it allows only the page's own style.
var docsPolicy = func() string {
	sum := sha256.Sum256([]byte(docsCSS))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// The parts of a document that the page shows. Member names match in any case.
type (
	docsDocument struct {
		Info       struct{ Version, Description string }
		Tags       []struct{ Name, Description string }
		Paths      map[string]docsPath
		Components struct {
			Schemas   map[string]*docsSchema
			Headers   map[string]docsValue
			Responses map[string]docsAnswer
		}
	}
	docsPath struct {
		Servers                       []docsValue
		Get, Put, Post, Patch, Delete *docsOperation
	}
	docsOperation struct {
		OperationID, Summary, Description string
		Tags                              []string
		Parameters                        []docsValue
		RequestBody                       docsAnswer
		Responses                         map[string]docsAnswer
	}
	docsValue struct { // a parameter, a header or a server
		Ref                   string `json:"$ref"`
		Name, In, Description string
		Required              bool
		Schema                *docsSchema
	}
	docsAnswer struct {
		Ref         string `json:"$ref"`
		Description string
		Headers     map[string]docsValue
		Content     map[string]docsValue
	}
	docsSchema struct {
		Ref                  string `json:"$ref"`
		Type                 any    // a string or a list of strings
		Format, Description  string
		Enum                 []any
		Items                *docsSchema
		AnyOf, OneOf         []*docsSchema
		Properties           map[string]*docsSchema
		AdditionalProperties any // a bool or a schema
		Required             []string
	}
)

// Operations returns the operations of a path by method.
func (p docsPath) Operations() map[string]*docsOperation {
	all := map[string]*docsOperation{"get": p.Get, "put": p.Put, "post": p.Post, "patch": p.Patch, "delete": p.Delete}
	for method, o := range all {
		if o == nil {
			delete(all, method)
		}
	}
	return all
}

// newPage returns the page that shows a document.
func newPage(text []byte) ([]byte, error) {
	var d docsDocument
	if err := json.Unmarshal(text, &d, json.MatchCaseInsensitiveNames(true)); err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err := docsTemplate.Execute(&page, struct {
		docsDocument
		Style template.CSS
	}{d, template.CSS(docsCSS)})
	return page.Bytes(), err
}

// lastPart returns the name at the end of a reference.
func lastPart(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// docsType is a part of the description of a schema: words, or the name of a type.
type docsType struct{ Words, Ref string }

// typeOf describes a schema in one line, which is enough for parameters and fields.
func typeOf(s *docsSchema) []docsType {
	if s == nil {
		return nil
	}
	switch {
	case s.Ref != "":
		return []docsType{{Ref: lastPart(s.Ref)}}
	case s.Items != nil:
		return append([]docsType{{Words: "list of"}}, typeOf(s.Items)...)
	case len(s.AnyOf)+len(s.OneOf) > 0:
		var all []docsType
		for i, one := range append(s.AnyOf, s.OneOf...) {
			if i > 0 {
				all = append(all, docsType{Words: "or"})
			}
			all = append(all, typeOf(one)...)
		}
		return all
	}
	words := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Type), " ", " or "), "[]")
	if s.Type == nil {
		words = "any"
	}
	if s.Format != "" {
		words += " (" + s.Format + ")"
	}
	if s.Enum != nil {
		words += ": " + strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Enum), "[]"), " ", ", ")
	}
	return []docsType{{Words: words}}
}
