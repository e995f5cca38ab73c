package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// pageSize is how many items are asked for at a time, the most that the API
// gives.
const pageSize = 1000

// Listing is the beginning of a list, or all of it.
type Listing[T any] struct {
	Items []T
	// Total counts everything that the filter selects, -1 where the server
	// does not say.
	Total int
	// More says that there is more than Items.
	More bool
}

// whole reads a list that the server gives in one piece.
func whole[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var page wire.Page[T]
	err := c.do(ctx, request{method: http.MethodGet, path: path}, &page)
	return page.Items, err
}

// list reads the pages of a list until limit items are had, all for 0.
func list[T any](ctx context.Context, c *Client, path string, filter url.Values, limit int) (Listing[T], error) {
	query := url.Values{}
	for name, values := range filter {
		query[name] = values
	}
	found := Listing[T]{Total: -1}
	for {
		ask := pageSize
		if limit > 0 {
			ask = min(ask, limit-len(found.Items))
		}
		query.Set("limit", strconv.Itoa(ask))
		var page wire.Page[T]
		if err := c.do(ctx, request{method: http.MethodGet, path: path, query: query}, &page); err != nil {
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
