package openapi

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/wire"
)

// comments are the doc comments of package wire: those of types by "Type", those of fields by
// "Type.Field".
type comments map[string]string

// readComments reads the comments of package wire. It replaces the names of fields in them by
// the JSON names, and the names of constants by their values.
func readComments() (comments, error) {
	all := comments{}
	names, err := fs.Glob(wire.Source, "*.go")
	if err != nil {
		return nil, err
	}
	var specs []ast.Spec
	for _, name := range names {
		text, err := wire.Source.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if d, is := d.(*ast.GenDecl); is {
				specs = append(specs, d.Specs...)
				if t, is := d.Specs[0].(*ast.TypeSpec); is && t.Doc == nil {
					t.Doc = d.Doc
				}
			}
		}
	}
	constants := constantsOf(specs)
	for _, s := range specs {
		if t, is := s.(*ast.TypeSpec); is {
			all.addType(t, constants)
		}
	}
	return all, nil
}

// constantsOf returns the values of the literal constants, by name.
func constantsOf(specs []ast.Spec) map[string]string {
	all := map[string]string{}
	for _, s := range specs {
		if s, is := s.(*ast.ValueSpec); is && len(s.Values) == len(s.Names) {
			for i, value := range s.Values {
				if literal, is := value.(*ast.BasicLit); is {
					all[s.Names[i].Name] = literal.Value
					if text, err := strconv.Unquote(literal.Value); err == nil {
						all[s.Names[i].Name] = text
					}
				}
			}
		}
	}
	return all
}

var capitalized = regexp.MustCompile(`\b[A-Z]\w*`)

func (c comments) addType(t *ast.TypeSpec, constants map[string]string) {
	var fields []*ast.Field
	if s, is := t.Type.(*ast.StructType); is {
		fields = s.Fields.List
	}
	written := map[string]string{}
	for _, f := range fields {
		if len(f.Names) == 1 && f.Tag != nil {
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
			name, _, _ := strings.Cut(tag.Get("json"), ",")
			written[f.Names[0].Name] = cmp.Or(tag.Get("path"), tag.Get("query"), tag.Get("header"), name)
		}
	}
	text := func(groups ...*ast.CommentGroup) string {
		var parts []string
		for _, g := range groups {
			parts = append(parts, strings.Fields(g.Text())...)
		}
		return capitalized.ReplaceAllStringFunc(strings.Join(parts, " "), func(word string) string {
			if word == t.Name.Name && groups[0] == t.Doc {
				return word
			}
			return cmp.Or(written[word], constants[word], word)
		})
	}
	c[t.Name.Name] = text(t.Doc)
	shared := map[string]*ast.CommentGroup{} // the last comment that names a later field
	for _, f := range fields {
		for _, word := range capitalized.FindAllString(f.Doc.Text(), -1) {
			shared[word] = f.Doc
		}
		if len(f.Names) != 1 {
			continue
		}
		name := f.Names[0].Name
		if c[t.Name.Name+"."+name] = text(f.Doc, f.Comment); f.Doc == nil && f.Comment == nil {
			c[t.Name.Name+"."+name] = text(shared[name])
		}
	}
}

// field returns the description of a field of a type, "" if there is none.
func (c comments) field(owner reflect.Type, goName, jsonName string) string {
	return cmp.Or(c[goTypeName(owner)+"."+goName], commonFields[jsonName])
}
