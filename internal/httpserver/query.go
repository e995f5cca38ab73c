package httpserver

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

// maxQueryValue is the longest value of a query parameter, in bytes.
const maxQueryValue = 1024

// Query reads the parameters of a request. Err returns the first error; after an error the
// other methods return zero values or what was sent.
type Query struct {
	values map[string]string
	err    error
}

// ParseQuery returns the parameters of a request. Only the named parameters are allowed, each
// once.
func (c *Call) ParseQuery(names ...string) *Query {
	q := &Query{values: map[string]string{}}
	for name, value := range c.Ctx.Context().QueryArgs().All() {
		switch _, twice := q.values[string(name)]; {
		case !slices.Contains(names, string(name)):
			q.Fail(escape.Log(string(name)), "is not a parameter here; "+describeParams(names))
		case twice:
			q.Fail(string(name), "is sent twice; send it once")
		case len(value) > maxQueryValue:
			q.Fail(string(name), "is longer than "+strconv.Itoa(maxQueryValue)+" bytes")
		case !utf8.Valid(value):
			q.Fail(string(name), "is not valid UTF-8")
		}
		q.values[string(name)] = string(value)
	}
	return q
}

func describeParams(names []string) string {
	if len(names) == 0 {
		return "this path takes no parameters"
	}
	return "the parameters are " + strings.Join(names, ", ")
}

// Fail records that a parameter is invalid, unless an error is already recorded.
func (q *Query) Fail(name, problem string) {
	if q.err == nil {
		q.err = fault.Field(name, "%s", problem)
	}
}

// FailBy sets the first error; nil is none.
func (q *Query) FailBy(err error) {
	if q.err == nil {
		q.err = err
	}
}

// Err returns the first error.
func (q *Query) Err() error { return q.err }

// Raw returns a parameter as it was sent, "" if it was not sent.
func (q *Query) Raw(name string) string { return q.values[name] }

// Given reports whether a parameter was sent at all.
func (q *Query) Given(name string) bool {
	_, given := q.values[name]
	return given
}

// Line returns a parameter that must not have control characters.
func (q *Query) Line(name string) string {
	if err := fault.CheckLine(name, q.values[name], maxQueryValue); err != nil && q.err == nil {
		q.err = err
	}
	return q.values[name]
}

// OneOf returns a parameter that must be one of some, "" if it was not sent.
func (q *Query) OneOf(name string, some ...string) string {
	value, given := q.values[name]
	if given && !slices.Contains(some, value) {
		q.Fail(name, "must be one of "+strings.Join(some, ", "))
	}
	return value
}

// Number returns a whole number within bounds, 0 if it was not sent.
func (q *Query) Number(name string, lowest, highest int) int {
	value, given := q.values[name]
	if !given {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < lowest || n > highest {
		q.Fail(name, "must be a whole number from "+strconv.Itoa(lowest)+" to "+strconv.Itoa(highest))
	}
	return n
}

// Limit returns the size of a page, 0 for the default.
func (q *Query) Limit() int { return q.Number("limit", 1, 1000) }

// Time returns a time, the zero time if it was not sent.
func (q *Query) Time(name string) time.Time {
	value, given := q.values[name]
	if !given {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil || t.IsZero() { // the zero time would mean none
		q.Fail(name, "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z")
		return time.Time{}
	}
	return t.UTC()
}

// PathParam returns a parameter of the path, unescaped. It refuses a value that cannot be a
// name or an id, so that no database is queried for it.
func (c *Call) PathParam(name string) (string, error) {
	value, err := url.PathUnescape(c.Params(name))
	if err != nil || value == "" || len(value) > 128 || escape.Log(value) != value {
		return "", fault.New(fault.NotFound, "There is nothing of that name.")
	}
	return value, nil
}

// Flag returns whether a parameter is true; it may be true or false, and is false if it was not
// sent.
func (q *Query) Flag(name string) bool { return q.OneOf(name, "true", "false") == "true" }

// Duration returns a duration, 0 if it was not sent.
func (q *Query) Duration(name string) time.Duration {
	value, given := q.values[name]
	if !given {
		return 0
	}
	length, err := rules.ParseDuration(value)
	if err != nil {
		q.Fail(name, strings.TrimPrefix(err.Error(), "the duration "))
	}
	return length
}

// List returns the elements of a comma-separated list, each of which must be one of known.
func (q *Query) List(name string, known ...string) []string {
	value, given := q.values[name]
	if !given {
		return nil
	}
	parts := strings.Split(value, ",")
	for _, part := range parts {
		if !slices.Contains(known, part) {
			q.Fail(name, "must be some of "+strings.Join(known, ", ")+", separated by commas")
		}
	}
	return parts
}
