package openapi

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS string

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// docsPolicy lets the page load nothing and run nothing but its own style.
var docsPolicy = func() string {
	sum := sha256.Sum256([]byte(docsCSS))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// docsPage is openapi.json as people read it.
type docsPage struct {
	Style       template.CSS
	Version     string
	Description string
	Groups      []docsGroup
	Types       []docsType
}

type docsGroup struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Listener string
	Access                              identity.Access
	Params                              []docsParam
	Body                                []docsContent
	Answers                             []docsAnswer
}

type docsParam struct {
	Name, In, Doc, Enum string
	Required            bool
}

type docsAnswer struct {
	Status, Doc string
	Content     []docsContent
}

type docsContent struct {
	Media string
	Type  typeText
}

// typeText names a type: what it is, and the named type that it is made of.
type typeText struct{ Text, Ref, Enum string }

type docsType struct {
	Name   string
	Fields []docsField
}

type docsField struct {
	Name     string
	Required bool
	Type     typeText
}

// newPage returns the page of a document and the routes that it was built from.
func newPage(document node, routes []Route) *docsPage {
	schemas := &schemas{named: document["components"].(node)["schemas"].(map[string]node)}
	info := document["info"].(node)
	page := &docsPage{Style: template.CSS(docsCSS), Version: info["version"].(string), Description: info["description"].(string)}
	groups := map[string]*docsGroup{}
	for i := range routes {
		r := &routes[i]
		if r.Operation == nil {
			continue
		}
		g := groups[r.Operation.Tag]
		if g == nil {
			g = &docsGroup{Name: r.Operation.Tag}
			groups[r.Operation.Tag] = g
		}
		g.Operations = append(g.Operations, docsOf(r, schemas))
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		slices.SortStableFunc(groups[name].Operations, func(a, b docsOperation) int { return strings.Compare(a.Path, b.Path) })
		page.Groups = append(page.Groups, *groups[name])
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.named)) {
		page.Types = append(page.Types, docsTypeOf(name, schemas.named[name]))
	}
	return page
}

func docsOf(r *Route, schemas *schemas) docsOperation {
	op := r.Operation
	path, pathParams := openAPIPath(r.Path)
	out := docsOperation{ID: op.ID, Method: strings.ToLower(r.Method), Path: path, Summary: op.Summary}
	if r.Listener == httpserver.Checks {
		out.Listener = "Answered on the listener for checks."
	}
	if r.Access != identity.Public {
		out.Access = r.Access
	}
	for _, name := range pathParams {
		out.Params = append(out.Params, docsParam{Name: name, In: "path", Required: true})
	}
	for _, p := range op.Query {
		out.Params = append(out.Params, docsParam{p.Name, "query", p.Doc, strings.Join(p.Enum, ", "), p.Required})
	}
	if op.IfMatch {
		out.Params = append(out.Params, docsParam{Name: "If-Match", In: "header", Doc: "The version that is expected, in quotes, or * for any."})
	}
	if op.hasBody() {
		out.Body = docsContents(describeBody(op, schemas)["content"].(node))
	}
	answers := describeAnswers(op, schemas)
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[status].(node)
		content, _ := answer["content"].(node)
		if status == "default" {
			status = "else"
		}
		out.Answers = append(out.Answers, docsAnswer{status, answer["description"].(string), docsContents(content)})
	}
	return out
}

func docsContents(content node) []docsContent {
	var all []docsContent
	for _, media := range slices.Sorted(maps.Keys(content)) {
		schema, _ := content[media].(node)["schema"].(node)
		all = append(all, docsContent{media, typeOf(schema)})
	}
	return all
}

func docsTypeOf(name string, schema node) docsType {
	out := docsType{Name: name}
	properties, _ := schema["properties"].(node)
	required, _ := schema["required"].([]string)
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		out.Fields = append(out.Fields, docsField{field, slices.Contains(required, field), typeOf(properties[field].(node))})
	}
	return out
}

// typeOf says in words what a schema allows.
func typeOf(schema node) typeText {
	if ref, is := schema["$ref"].(string); is {
		return typeText{Text: "a", Ref: ref[strings.LastIndexByte(ref, '/')+1:]}
	}
	if some, is := schema["anyOf"].([]node); is {
		return eitherOf(some)
	}
	t := typeText{}
	switch kind := schema["type"].(type) {
	case []string:
		t.Text = strings.Join(kind, " or ")
	case string:
		t.Text = kind
	}
	switch t.Text {
	case "array":
		items := typeOf(schema["items"].(node))
		items.Text = "list of " + strings.TrimPrefix(items.Text, "a")
		return items
	case "object":
		if of, is := schema["additionalProperties"].(node); is {
			values := typeOf(of)
			values.Text = "object of " + values.Text
			return values
		}
	}
	if format, is := schema["format"].(string); is {
		t.Text += " (" + format + ")"
	}
	if enum := reflect.ValueOf(schema["enum"]); enum.IsValid() {
		quoted := make([]string, enum.Len())
		for i := range quoted {
			quoted[i] = strconv.Quote(enum.Index(i).String())
		}
		t.Enum = strings.Join(quoted, ", ")
	}
	return t
}

func eitherOf(some []node) typeText {
	t := typeOf(some[0])
	for _, other := range some[1:] {
		next := typeOf(other)
		if next.Ref != "" {
			next.Text = next.Ref
		}
		t.Text = next.Text + " or " + t.Text
	}
	return t
}
