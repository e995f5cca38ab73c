package client

// Listing is the beginning of a list, or all of it.
type Listing[T any] struct {
	Items []T
	// Total counts everything that the filter selects, -1 if the server does not say.
	Total int
	// More reports whether there are more items than Items.
	More bool
}
