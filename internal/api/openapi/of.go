package openapi

import (
	"net/http"
	"reflect"

	"github.com/stint-dev/stint/internal/wire"
)

// OperationOf returns the description of a declared operation.
func OperationOf[In, Out any](op wire.Op[In, Out]) *Operation {
	input := reflect.TypeFor[In]()
	params, hasBody := wire.ParamsOf(input)
	o := &Operation{ID: op.ID, Tag: op.Tag, Summary: op.Summary, Doc: op.Doc, BodyOptional: op.OptionalBody, Conflict: op.Conflict, ExpectsETags: op.ExpectsETags, BodyTypes: op.Takes, input: input}
	for _, p := range params {
		o.IfMatch = o.IfMatch || p.Name == wire.IfMatch
		if p.In == "query" {
			kind := p.Field.Type.Kind()
			if kind == reflect.Pointer {
				kind = p.Field.Type.Elem().Kind()
			}
			o.Query = append(o.Query, Param{
				Name: p.Name, Required: p.Required, Enum: p.Enum, Integer: kind == reflect.Int, Boolean: kind == reflect.Bool, field: p.Field.Name,
			})
		}
	}
	if hasBody {
		o.Body = wire.BodyOf(reflect.Zero(input)).Interface()
	}
	answer := Answer{Status: http.StatusOK, Doc: op.Answer, Body: *new(Out)}
	_, isLocated := answer.Body.(wire.Located)
	switch _, isNone := answer.Body.(wire.None); {
	case isNone:
		answer.Status, answer.Body = http.StatusNoContent, nil
	case op.Created:
		answer.Status = http.StatusCreated
		if isLocated {
			answer.Headers = []Header{Location}
		}
	}
	if _, isTagged := answer.Body.(wire.Tagged); isTagged {
		answer.Headers = append(answer.Headers, ETag)
	}
	o.Answers = []Answer{answer}
	if op.Made != "" {
		o.Answers = append(o.Answers, Answer{Status: http.StatusCreated, Doc: op.Made, Body: answer.Body, Headers: append([]Header{Location}, answer.Headers...)})
	}
	if op.Accepted != "" {
		o.Answers = append(o.Answers, Answer{Status: http.StatusAccepted, Doc: op.Accepted, Body: answer.Body})
	}
	return o
}
