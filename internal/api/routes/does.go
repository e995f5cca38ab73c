package routes

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// Does returns the route of an operation that a use case does.
func Does[In, Out any](op wire.Op[In, Out], do func(context.Context, admin.Caller, In) (Out, error)) openapi.Route {
	return Answers(op, func(c *httpserver.Call, in In) (Out, error) { return do(c.Context(), CallerOf(c), in) })
}

// Answers is Does for a function that needs more of the request than its caller.
func Answers[In, Out any](op wire.Op[In, Out], do func(*httpserver.Call, In) (Out, error)) openapi.Route {
	return routeOf(op, openapi.OperationOf(op), func(c *httpserver.Call, in In) error {
		out, err := do(c, in)
		if err != nil {
			return err
		}
		return send(c, op.Created, out)
	})
}

// Makes is Answers for an operation that may make something: do returns the path of what it has made,
// "" if it has made nothing.
func Makes[In, Out any](op wire.Op[In, Out], do func(*httpserver.Call, In) (out Out, path string, err error)) openapi.Route {
	return routeOf(op, openapi.OperationOf(op), func(c *httpserver.Call, in In) error {
		out, path, err := do(c, in)
		if err != nil {
			return err
		}
		if path != "" {
			c.Set(fiber.HeaderLocation, path)
		}
		return send(c, path != "", out)
	})
}

// Writes returns the route of an operation whose answer write writes. answer says what that is.
func Writes[In any](op wire.Op[In, wire.File], answer openapi.Answer, write func(*httpserver.Call, In) error) openapi.Route {
	o := openapi.OperationOf(op)
	answer.Status, answer.Doc = http.StatusOK, op.Answer
	o.Answers = []openapi.Answer{answer}
	return routeOf(op, o, write)
}

func routeOf[In, Out any](op wire.Op[In, Out], o *openapi.Operation, handle func(*httpserver.Call, In) error) openapi.Route {
	method, path, _ := strings.Cut(op.Route, " ")
	params, hasBody := wire.ParamsOf(reflect.TypeFor[In]())
	r := OnAdmin(method, path, identity.Access(op.Access), func(c *httpserver.Call) error {
		var in In
		if err := read(c, &in, params, hasBody, op.OptionalBody); err != nil {
			return err
		}
		return handle(c, in)
	}, o)
	r.Streams = op.Takes != nil
	return r
}

// read reads the input of an operation.
func read(c *httpserver.Call, in any, params []wire.Param, hasBody, isOptional bool) error {
	field := func(p wire.Param) reflect.Value { return reflect.ValueOf(in).Elem().FieldByIndex(p.Field.Index) }
	var names []string
	for _, p := range params {
		switch p.In {
		case "path":
			text, err := pathText(c, p.Name)
			if err != nil {
				return err
			}
			field(p).SetString(text)
		case "header":
			if p.Name != wire.IfMatch {
				field(p).SetString(strings.Clone(c.Get(p.Name)))
				continue
			}
			expect, err := ifMatch(c, p.Field.Tag.Get("required"))
			if err != nil {
				return err
			}
			field(p).SetString(string(expect))
		case "query":
			names = append(names, p.Name)
		}
	}
	if hasBody {
		decode := c.DecodeJSON
		if isOptional {
			decode = c.DecodeOptional
		}
		if err := decode(wire.BodyOf(reflect.ValueOf(in).Elem()).Addr().Interface()); err != nil {
			return err
		}
	}
	q := c.ParseQuery(names...)
	for _, p := range params {
		if p.In == "query" {
			readQuery(q, p, field(p))
		}
	}
	return q.Err()
}

// pathText returns a parameter of the path, unescaped.
func pathText(c *httpserver.Call, name string) (string, error) {
	if name != "key" {
		return c.PathParam(name)
	}
	text, err := url.PathUnescape(c.Params(name))
	if err != nil || len(text) > keys.MaxLength {
		return "", fault.Field(name, "must be a percent-encoded key of at most %d bytes", keys.MaxLength)
	}
	return strings.Clone(text), nil
}

// largest returns the largest number that a parameter takes.
func largest(p wire.Param) int {
	if most, err := strconv.Atoi(p.Field.Tag.Get("range")); err == nil {
		return most
	}
	return 1000
}

// readQuery reads a parameter of the query into its field.
func readQuery(q *httpserver.Query, p wire.Param, field reflect.Value) {
	switch into := field.Addr().Interface().(type) {
	case *wire.Time:
		into.Time = q.Time(p.Name)
	case *wire.Duration:
		*into = wire.Duration(q.Duration(p.Name))
	case *bool:
		*into = q.Flag(p.Name)
	case *int:
		*into = q.Number(p.Name, 1, largest(p))
	case **int:
		if n := q.Number(p.Name, 0, largest(p)); q.Given(p.Name) {
			*into = &n
		}
	case *[]string:
		*into = q.List(p.Name, p.Enum...)
	default:
		text := q.Line(p.Name)
		if p.Enum != nil {
			text = q.OneOf(p.Name, p.Enum...)
		}
		field.SetString(text)
	}
	if p.Required && !q.Given(p.Name) {
		q.Fail(p.Name, "is missing; "+p.Field.Tag.Get("required"))
	}
	if p.Field.Tag.Get("filled") != "" && q.Given(p.Name) && field.IsZero() {
		q.Fail(p.Name, "is empty; leave it out instead")
	}
}

// send sends the answer of an operation.
func send(c *httpserver.Call, isCreated bool, out any) error {
	if _, isNone := out.(wire.None); isNone {
		return c.SendStatus(http.StatusNoContent)
	}
	status := http.StatusOK
	if running, is := out.(wire.Unfinished); is && running.IsUnfinished() {
		status = http.StatusAccepted
	}
	if isCreated {
		status = http.StatusCreated
		if made, is := out.(wire.Located); is {
			c.Set(fiber.HeaderLocation, made.Location())
		}
	}
	if tagged, is := out.(wire.Tagged); is && tagged.Tag() != "" {
		c.Set(fiber.HeaderETag, `"`+tagged.Tag()+`"`)
	}
	return c.SendJSON(status, out)
}
