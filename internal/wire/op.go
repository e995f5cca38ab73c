package wire

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Op declares an operation of the REST API. The route, its description in the OpenAPI document,
// the call of the command line and the tests of access follow from it; package api only says
// which use case does it.
//
// In is a struct of all that a request says. Fields with a json name make up the body; a field of
// the path, the query or a header has a tag of that kind with its name, and json:"-":
//
//	ID     string `path:"id" json:"-"`
//	Search string `query:"search" json:"-"` // Only users whose name contains this text.
//	Name   string `json:"name"`
//
// Instead of fields with a json name, In may embed one struct that is the body.
//
// A query field may have the tags enum:"a,b", range:"120" for a number that is at most 120 and not 1000 (a *int may be 0, and is nil if it was not sent), filled:"true" for a text that must not be sent empty, and, if it must be sent, required with what to send. Its
// comment is its description, as the comments of all fields are. If the header If-Match must be
// sent, its tag required names the change in messages: "Deleting a channel".
type Op[In, Out any] struct {
	ID      string // unique, for generated clients
	Route   string // the method and the path, for example "GET /v1/tokens/:id"
	Access  string // what a role or scope must give, for example "read"
	Tag     Tag
	Summary string
	Doc     string // more than the summary, in Markdown; "" for none
	Answer  string // what the answer is
	// Created means that the operation makes something: the status is 201 and, if the answer is
	// Located, its path is in the header Location.
	Created bool
	// Made is what the answer is if the operation has made something: the status is 201 then. "" if
	// it makes nothing, or always does.
	Made string
	// Takes are the media types of a body that is a file, which is read as it comes; nil for none.
	Takes []string
	// ExpectsETags means that the body has the ETags of what the operation changes.
	ExpectsETags bool
	// OptionalBody means that the body may be missing.
	OptionalBody bool
	// Slow means that the answer may take longer than others do.
	Slow bool
	// ReadOnly means that the operation changes nothing although its method suggests it.
	ReadOnly bool
	// Conflict means that the operation may answer 409 although it changes nothing.
	Conflict bool
	// Accepted is what the answer is if what it is about goes on, "" if nothing does. The status is
	// 202 then, and the answer is an Unfinished.
	Accepted string
}

// Tag is a group of operations in the OpenAPI document.
type Tag struct{ Name, Doc string }

// None is the input of an operation that takes nothing, or the answer of one that answers nothing.
type None struct{}

// File is the answer of an operation whose handler writes it, in one of several formats.
type File struct{}

// ByID is the input of an operation on something that has an id.
type ByID struct {
	ID string `path:"id" json:"-"`
}

// ByName is the input of an operation on something that has a name.
type ByName struct {
	Name string `path:"name" json:"-"`
}

// Located is an answer with a path of its own.
type Located interface{ Location() string }

// Tagged is an answer with an ETag, "" for none.
type Tagged interface{ Tag() string }

// Unfinished is an answer about something that may go on.
type Unfinished interface{ IsUnfinished() bool }

// IfMatch is the header with the ETag that a change expects.
const IfMatch = "If-Match"

// Param is a field of an input that is not part of the body.
type Param struct {
	In       string // path, query or header
	Name     string
	Field    reflect.StructField
	Enum     []string
	Required bool
}

// ParamsOf returns the parameters of an input, in the order of its fields, and whether it has a
// body too.
func ParamsOf(input reflect.Type) (params []Param, hasBody bool) {
	for _, f := range reflect.VisibleFields(input) {
		for _, in := range []string{"path", "query", "header"} {
			if name, is := f.Tag.Lookup(in); is {
				p := Param{In: in, Name: name, Field: f, Required: in == "path" || f.Tag.Get("required") != ""}
				if enum := f.Tag.Get("enum"); enum != "" {
					p.Enum = strings.Split(enum, ",")
				}
				params = append(params, p)
			}
		}
		hasBody = hasBody || !isParam(f) && !f.Anonymous
	}
	return params, hasBody
}

// BodyOf returns the body of an input: the input itself, or the struct embedded in it that has all
// fields of the body.
func BodyOf(input reflect.Value) reflect.Value {
	body := input
	for i := range input.NumField() {
		f := input.Type().Field(i)
		if !f.Anonymous {
			if !isParam(f) {
				return input
			}
			continue
		}
		if _, hasBody := ParamsOf(f.Type); hasBody {
			body = input.Field(i)
		}
	}
	return body
}

func isParam(f reflect.StructField) bool {
	return slices.ContainsFunc([]string{"path", "query", "header"}, func(in string) bool { _, is := f.Tag.Lookup(in); return is })
}

// Of returns the text of a parameter in an input, "" if it is not set.
func (p Param) Of(input reflect.Value) string {
	v := input.FieldByIndex(p.Field.Index)
	if v.IsZero() {
		return ""
	}
	switch v := v.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case *int:
		return strconv.Itoa(*v)
	case encoding.TextMarshaler:
		text, _ := v.MarshalText() // times and durations always have a text
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}
