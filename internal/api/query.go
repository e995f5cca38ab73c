package api

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/fault"
)

// maxQueryValue is the longest value of a query parameter, in bytes.
const maxQueryValue = 1024

// query reads the parameters of a request. The first that is wrong stays in
// err, and the readers after it return zero values.
type query struct {
	values map[string]string
	err    error
}

// Query returns the parameters of a request, of which only those named may be
// there and each once.
func (c *Call) query(names ...string) *query {
	q := &query{values: map[string]string{}}
	for name, value := range c.Ctx.Context().QueryArgs().All() {
		switch _, twice := q.values[string(name)]; {
		case !slices.Contains(names, string(name)):
			q.fail(plain(string(name)), "is not a parameter here; the parameters are "+strings.Join(names, ", "))
		case twice:
			q.fail(string(name), "stands twice; send it once")
		case len(value) > maxQueryValue:
			q.fail(string(name), "is longer than "+strconv.Itoa(maxQueryValue)+" bytes")
		case !utf8.Valid(value):
			q.fail(string(name), "is not valid UTF-8")
		}
		q.values[string(name)] = string(value)
	}
	return q
}

func (q *query) fail(name, problem string) {
	if q.err == nil {
		q.err = fault.Field(name, "%s", problem)
	}
}

// given reports whether a parameter was sent at all.
func (q *query) given(name string) bool {
	_, given := q.values[name]
	return given
}

// line returns a text without control characters.
func (q *query) line(name string) string {
	if err := checkLine(name, q.values[name], maxQueryValue); err != nil && q.err == nil {
		q.err = err
	}
	return q.values[name]
}

// oneOf returns a text that is one of some, "" where it was not sent.
func (q *query) oneOf(name string, some ...string) string {
	value, given := q.values[name]
	if given && !slices.Contains(some, value) {
		q.fail(name, "must be one of "+strings.Join(some, ", "))
	}
	return value
}

// number returns a whole number within bounds, 0 where it was not sent.
func (q *query) number(name string, least, most int) int {
	value, given := q.values[name]
	if !given {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		q.fail(name, "must be a whole number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most))
	}
	return n
}

// limit returns the size of a page, 0 for the default.
func (q *query) limit() int { return q.number("limit", 1, 1000) }

// time returns an instant, zero where it was not sent.
func (q *query) time(name string) time.Time {
	value, given := q.values[name]
	if !given {
		return time.Time{}
	}
	var t v1.Time
	if err := t.UnmarshalText([]byte(value)); err != nil {
		q.fail(name, "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z")
	}
	return t.Time
}

// param returns a part of the path. What cannot be anything's name or id is
// nothing there, and no database is asked for it.
func (c *Call) param(name string) (string, error) {
	value := c.Params(name)
	if value == "" || len(value) > 128 || plain(value) != value {
		return "", fault.New(fault.NotFound, "There is nothing of that name.")
	}
	return value, nil
}
