package site

import (
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// Query contains the parameters of a page's address, from which other addresses of the page are
// made.
type Query url.Values

// Get returns a parameter.
func (q Query) Get(name string) string { return url.Values(q).Get(name) }

// Path returns the address of a page with the same parameters, changed by pairs of name and
// value. An empty value removes a parameter.
func (q Query) Path(page string, changes ...string) string {
	values := url.Values{}
	for name, all := range q {
		values[name] = all
	}
	for i := 0; i < len(changes); i += 2 {
		values.Del(changes[i])
		if changes[i+1] != "" {
			values.Set(changes[i], changes[i+1])
		}
	}
	if len(values) == 0 {
		return page
	}
	return page + "?" + values.Encode()
}

// With returns the address of a page with one parameter changed, at its first page.
func (q Query) With(name, value, page string) string {
	if name == "edit" {
		return q.Path(page, name, value)
	}
	return q.Path(page, "cursor", "", "from", "", "edit", "", name, value)
}

// Without returns the address of a page without one parameter.
func (q Query) Without(name, page string) string { return q.With(name, "", page) }

// maxValue is the maximum length of a parameter's value: the ids of RowsPerPage entries.
const maxValue = RowsPerPage * 40

// FitsQuery reports whether ReadQuery accepts the value of a parameter as it is.
func FitsQuery(value string) bool {
	return len(value) <= maxValue && format.ClipLine(value, len(value)) == value && strings.TrimSpace(value) == value
}

// ReadQuery returns the named parameters of a request; others are ignored.
func ReadQuery(c *httpserver.Call, names ...string) (Query, error) {
	q := Query{}
	for _, name := range names {
		value := strings.TrimSpace(c.Query(name))
		if value == "" {
			continue
		}
		if !FitsQuery(value) {
			return nil, fault.Field(name, "is too long or contains control characters")
		}
		q[name] = []string{value}
	}
	return q, nil
}

func sortedNames(values url.Values) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
