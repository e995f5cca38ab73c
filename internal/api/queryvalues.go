package api

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// flag returns whether a parameter is true, false where it was not sent.
func (q *query) flag(name string) bool { return q.oneOf(name, "true", "false") == "true" }

// length returns a length of time, 0 where it was not sent.
func (q *query) length(name string) time.Duration {
	value, given := q.values[name]
	if !given {
		return 0
	}
	length, err := rules.ParseDuration(value)
	if err != nil {
		q.fail(name, strings.TrimPrefix(err.Error(), "the duration "))
	}
	return length
}

// some returns the parts of a list with commas, each one of those known.
func (q *query) some(name string, known ...string) []string {
	value, given := q.values[name]
	if !given {
		return nil
	}
	parts := strings.Split(value, ",")
	for _, part := range parts {
		if !slices.Contains(known, part) {
			q.fail(name, "must be some of "+strings.Join(known, ", ")+", with commas between")
		}
	}
	return parts
}
