// Package paging has the pages of lists.
package paging

import "github.com/stint-dev/stint/internal/wire"

// Page is one page of a list of T. Its zero value is an empty list.
type Page[T any] struct {
	Items []T
	Next  string // the cursor of the next page, "" on the last
	// Total is the number of all items that the filter selects, 0 if the filter asks not to count.
	Total int
	// Over means that there are more than Total, which were not counted.
	Over bool
}

// MaxCounted bounds what is counted where each match must be read.
const MaxCounted = 10_000

// ToWire returns a page of a counted list as the API shows it.
func ToWire[T, W any](p Page[T], convert func(T) W) wire.Page[W] {
	page := wire.NewPage(p.Items, p.Next, convert)
	page.Total = &p.Total
	return page
}
