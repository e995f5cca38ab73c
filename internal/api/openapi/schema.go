package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/swaggest/jsonschema-go"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/wire"
)

// schemas converts the types of package wire to JSON schemas, each with one name.
type schemas struct {
	reflector jsonschema.Reflector
	comments  comments
	named     node
	err       error // all errors, and all missing descriptions
}

// described returns a description. It is an error if there is none.
func (s *schemas) described(what, text string) string {
	if text == "" {
		s.fail(fmt.Errorf("openapi: %s has no description", what))
	}
	return text
}

func (s *schemas) fail(err error) { s.err = errors.Join(s.err, err) }

func newSchemas() *schemas {
	s := &schemas{named: node{}}
	s.comments, s.err = readComments()
	s.reflector.InlineDefinition(wire.RuleStates{})
	s.reflector.DefaultOptions = []func(*jsonschema.ReflectContext){
		jsonschema.DefinitionsPrefix("#/components/schemas/"), jsonschema.RootRef,
		func(rc *jsonschema.ReflectContext) { rc.EnvelopNullability = true },
		jsonschema.CollectDefinitions(func(name string, schema jsonschema.Schema) { s.named[name] = s.node(schema) }),
		jsonschema.InterceptDefName(func(t reflect.Type, _ string) string { return schemaName(t) }),
		jsonschema.InterceptSchema(s.interceptSchema),
		jsonschema.InterceptProp(s.interceptField),
		jsonschema.InterceptNullability(func(p jsonschema.InterceptNullabilityParams) {
			// A nil list is [] and a nil map {}, except for RuleStates.
			if p.Type.Kind() != reflect.Pointer && p.Type != reflect.TypeFor[wire.RuleStates]() && p.NullAdded {
				p.Schema.RemoveType(jsonschema.Null)
			}
		}),
	}
	return s
}

// of returns the schema of a value's type.
func (s *schemas) of(v any) node {
	if u, is := v.(Union); is {
		var all []node
		for _, one := range u.Of {
			all = append(all, s.of(one))
		}
		s.named[u.Name] = node{"description": s.described(u.Name, u.Doc), "oneOf": all}
		return node{"$ref": "#/components/schemas/" + u.Name}
	}
	schema, err := s.reflector.Reflect(v)
	s.fail(err)
	return s.node(schema)
}

func (s *schemas) node(schema jsonschema.Schema) node {
	out := node{}
	text, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	s.fail(err)
	return out
}

// interceptSchema is called before and after a type is reflected.
func (s *schemas) interceptSchema(p jsonschema.InterceptSchemaParams) (stop bool, err error) {
	t := pointedTo(p.Value.Type())
	if p.Processed {
		s.completeType(t, p.Schema)
		return false, nil
	}
	switch t {
	case reflect.TypeFor[wire.Time]():
		p.Schema.WithType(orNull(jsonschema.String)).WithFormat("date-time")
	case reflect.TypeFor[wire.Duration]():
		p.Schema.WithType(jsonschema.String.Type()).WithPattern("^([0-9]+(ms|s|m|h|d|w))+$").WithExamples("24h", "7d")
	case reflect.TypeFor[wire.NullString]():
		p.Schema.WithType(orNull(jsonschema.String))
	case reflect.TypeFor[jsontext.Value]():
	default:
		value := wire.ValueType(t)
		if value == t {
			return false, nil
		}
		inner, err := s.reflector.Reflect(reflect.Zero(value).Interface())
		if err != nil {
			return false, err
		}
		if wire.TakesNull(value) {
			inner.AddType(jsonschema.Null)
		}
		*p.Schema = inner
	}
	s.reflector.InlineDefinition(reflect.Zero(t).Interface())
	return true, nil
}

func orNull(t jsonschema.SimpleType) jsonschema.Type {
	return jsonschema.Type{SliceOfSimpleTypeValues: []jsonschema.SimpleType{t, jsonschema.Null}}
}

// completeType adds to a reflected type what the library cannot derive.
func (s *schemas) completeType(t reflect.Type, schema *jsonschema.Schema) {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		schema.WithFormat("int64")
	case reflect.Float64:
		schema.WithFormat("double")
	case reflect.Struct:
		if of := schema.OneOf; len(of) > 0 {
			*schema = jsonschema.Schema{OneOf: of}
		} else {
			isOpen := slices.ContainsFunc(reflect.VisibleFields(t), isRest)
			schema.WithAdditionalProperties(jsonschema.SchemaOrBool{TypeBoolean: &isOpen})
		}
		schema.WithDescription(s.described("wire."+goTypeName(t), s.comments[goTypeName(t)]))
		if t == reflect.TypeFor[wire.KeyPart]() { // may also be just the key
			object := *schema
			key := jsonschema.String.ToSchemaOrBool()
			*schema = jsonschema.Schema{Description: object.Description, OneOf: []jsonschema.SchemaOrBool{key, object.ToSchemaOrBool()}}
		}
	}
}

// isRest reports whether a field holds the members without a field of their own.
func isRest(f reflect.StructField) bool { return strings.HasPrefix(f.Tag.Get("json"), ",") }

// interceptField is called before and after a field is reflected.
func (s *schemas) interceptField(p jsonschema.InterceptPropParams) error {
	if isRest(p.Field) {
		return jsonschema.ErrSkipProperty
	}
	if !p.Processed {
		return nil
	}
	owner, isOptional := ownerOf(p.ParentSchema.ReflectType, p.Field)
	required := !strings.Contains(p.Field.Tag.Get("json"), ",omit")
	if p.Field.Tag.Get("always") == "answer" { // a request may leave it out; the answer has the request's type embedded
		required = owner != pointedTo(p.ParentSchema.ReflectType)
	}
	if required && !isOptional {
		p.ParentSchema.Required = append(p.ParentSchema.Required, p.Name)
	}
	p.PropertySchema.WithDescription(s.described("wire."+goTypeName(owner)+"."+p.Field.Name, s.comments.field(owner, p.Field.Name, p.Name)))
	if all := p.PropertySchema.AnyOf; len(all) > 0 { // null or a reference; the reference has the type
		p.PropertySchema.Type, all[len(all)-1].TypeObject.Type = nil, nil
	}
	switch {
	case p.Name == "algorithm":
		p.PropertySchema.WithEnum(anyOf(append(algorithms.Names(), algorithms.PointLog))...)
	case owner == reflect.TypeFor[wire.Channel]() && p.Name == "type":
		p.PropertySchema.WithEnum(anyOf(operations.ChannelTypeNames())...)
	}
	if p.PropertySchema.Enum != nil && p.PropertySchema.HasType(jsonschema.Null) {
		p.PropertySchema.Enum = append(p.PropertySchema.Enum, nil)
	}
	return nil
}

// ownerOf returns the struct that declares a field of t, which may be embedded in t. It also
// reports whether that struct is embedded as a pointer, so that its fields may be missing.
func ownerOf(t reflect.Type, f reflect.StructField) (owner reflect.Type, isOptional bool) {
	t = pointedTo(t)
	found, _ := t.FieldByName(f.Name)
	for _, i := range found.Index[:len(found.Index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			t, isOptional = t.Elem(), true
		}
	}
	return t, isOptional
}

// pointedTo returns a type, or what a pointer type points to.
func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func anyOf(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// goTypeName returns the name of a type without its type parameters.
func goTypeName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

// schemaName names a type: "Block", "PageOfBlock".
func schemaName(t reflect.Type) string {
	name, of, isGeneric := strings.Cut(t.Name(), "[")
	if !isGeneric {
		return name
	}
	of = strings.TrimSuffix(of, "]")
	return name + "Of" + of[strings.LastIndexByte(of, '.')+1:]
}
