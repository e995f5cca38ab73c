package client

import (
	"context"
	"maps"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// pageSize is the number of items to request at a time, the API's maximum.
const pageSize = 1000

// Listing is the beginning of a list, or all of it.
type Listing[T any] struct {
	Items []T
	// Total counts everything that the filter selects, -1 if the server does not say.
	Total int
	// More reports whether there are more items than Items.
	More bool
}

// items returns the items of a list that is sent as one page.
func items[T any](ctx context.Context, c *conn, r request) ([]T, error) {
	page, err := call[wire.Page[T]](ctx, c, r)
	return page.Items, err
}

// list reads the pages of a list up to limit items, all for 0.
func list[T any](ctx context.Context, c *conn, path string, filter url.Values, limit int) (Listing[T], error) {
	query := url.Values{}
	maps.Copy(query, filter)
	found := Listing[T]{Total: -1}
	for {
		size := pageSize
		if limit > 0 {
			size = min(size, limit-len(found.Items))
		}
		query.Set("limit", strconv.Itoa(size))
		page, err := call[wire.Page[T]](ctx, c, get(path).with(query))
		if err != nil {
			return found, err
		}
		found.Items = append(found.Items, page.Items...)
		if page.Total != nil {
			found.Total = *page.Total
		}
		found.More = page.NextCursor != ""
		if !found.More || limit > 0 && len(found.Items) >= limit {
			return found, nil
		}
		query.Set("cursor", string(page.NextCursor))
	}
}
