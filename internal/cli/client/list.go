package client

import (
	"context"
	"maps"
	"net/url"
)

// Listing is the beginning of a list, or all of it.
type Listing[T any] struct {
	Items []T
	// Total counts everything that the filter selects, -1 if the server does not say.
	Total int
	// More reports whether there are more items than Items.
	More bool
}

// list reads the pages of a list up to limit items, all for 0.
func list[T any](ctx context.Context, c *conn, path string, filter url.Values, limit int) (Listing[T], error) {
	query := url.Values{}
	maps.Copy(query, filter)
	return pages[T](ctx, c, get(path).with(query), limit)
}
