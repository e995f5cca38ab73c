// Package paging has the pages of lists.
package paging

// Page is one page of a list of T. Its zero value is an empty list.
type Page[T any] struct {
	Items []T
	Next  string // the cursor of the next page, "" on the last
	// Total is the number of all items that the filter selects, 0 if the filter asks not to count.
	Total int
}
