package openapi

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/wire"
)

// schemas turns the types of package wire into JSON schemas, each named once.
type schemas struct{ named map[string]node }

func newSchemas() *schemas { return &schemas{named: map[string]node{}} }

// enums are the texts that a field may hold, by type and field.
var enums = map[string][]string{
	"Decision.decision":       {wire.Allowed, wire.Limited, wire.Blocked, wire.Unavailable},
	"Shadow.decision":         {wire.Allowed, wire.Limited, wire.Blocked, wire.Unavailable},
	"KeyExplanation.decision": {wire.Allowed, wire.Limited, wire.Blocked, wire.Unavailable},
	"CheckRequest.detail":     {wire.DetailRules, wire.DetailNone},
	"KeysRequest.detail":      {wire.DetailRules, wire.DetailNone},
	"KeysDecision.decision":   {wire.Allowed, wire.Limited, wire.Blocked, wire.Unavailable},
	"BlockRequest.on_conflict": {
		wire.ConflictFail, wire.ConflictKeep, wire.ConflictExtend, wire.ConflictReplace,
	},
	"PolicyRequest.mode":         {"enforce", "shadow", "off"},
	"PolicyRequest.on_failure":   {"local", "allow", "deny"},
	"PolicyRequest.algorithm":    algorithms.Names(),
	"PolicyOptions.window_start": {algorithms.WindowClock, algorithms.WindowFirst},
	"PolicyOptions.as":           {algorithms.VariantMeter, algorithms.VariantQueue},
	"UserRequest.role":           {"viewer", "operator", "admin"},
}

// of returns the schema of a value's type.
func (s *schemas) of(v any) node {
	several, is := v.(AnyOf)
	if !is {
		return s.ofType(reflect.TypeOf(v))
	}
	var all []node
	for _, one := range several {
		all = append(all, s.of(one))
	}
	return node{"anyOf": all}
}

func (s *schemas) ofType(t reflect.Type) node {
	switch t {
	case reflect.TypeFor[wire.Time]():
		return node{"type": []string{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[wire.Duration]():
		return node{"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w))+$", "examples": []string{"24h", "7d"}}
	case reflect.TypeFor[wire.NullString]():
		return node{"type": []string{"string", "null"}}
	case reflect.TypeFor[wire.RuleStates]():
		return orNull(node{"type": "array", "items": s.ofType(reflect.TypeFor[wire.RuleState]())})
	case reflect.TypeFor[jsontext.Value]():
		return node{}
	case reflect.TypeFor[wire.KeyPart]():
		return node{"anyOf": []node{{"type": "string"}, s.ofStruct(t)}}
	case reflect.TypeFor[wire.BatchItem]():
		return node{"anyOf": []node{s.ofType(reflect.TypeFor[wire.Decision]()), s.ofType(reflect.TypeFor[wire.Problem]())}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(s.ofType(t.Elem()))
	case reflect.Slice:
		return node{"type": "array", "items": s.ofType(t.Elem())}
	case reflect.Map:
		return node{"type": "object", "additionalProperties": s.ofType(t.Elem())}
	case reflect.Struct:
		return s.ofStruct(t)
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.Float64:
		return node{"type": "number"}
	case reflect.Int, reflect.Int64:
		return node{"type": "integer"}
	}
	return node{"type": "string"}
}

func orNull(schema node) node { return node{"anyOf": []node{schema, {"type": "null"}}} }

func (s *schemas) ofStruct(t reflect.Type) node {
	if change, is := t.FieldByName("Given"); is && change.Type.Kind() == reflect.Bool { // wire.Change
		return orNull(s.ofType(t.Field(1).Type))
	}
	name := schemaName(t)
	ref := node{"$ref": "#/components/schemas/" + name}
	if _, known := s.named[name]; known {
		return ref
	}
	s.named[name] = node{} // a type may hold itself
	properties, required := node{}, []string{}
	open := s.members(t, name, properties, &required)
	schema := node{"type": "object", "properties": properties, "additionalProperties": open}
	if len(required) > 0 {
		schema["required"] = required
	}
	s.named[name] = schema
	return ref
}

// members fills in the fields of a struct, those of what it embeds included,
// and reports whether it may hold others.
func (s *schemas) members(t reflect.Type, owner string, properties node, required *[]string) (open bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" {
			inner, needed := f.Type, required
			if inner.Kind() == reflect.Pointer { // its members may all be missing
				inner, needed = inner.Elem(), new([]string)
			}
			open = s.members(inner, owner, properties, needed) || open
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" { // the fallback that keeps unknown members
			open = true
			continue
		}
		schema := s.ofType(f.Type)
		if values := enums[owner+"."+name]; values != nil {
			schema["enum"] = values
		}
		properties[name] = schema
		if options == "" {
			*required = append(*required, name)
		}
	}
	return open
}

// schemaName names a type: "Block", "PageOfBlock".
func schemaName(t reflect.Type) string {
	name, of, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return name
	}
	of = strings.TrimSuffix(of, "]")
	return name + "Of" + of[strings.LastIndexByte(of, '.')+1:]
}
