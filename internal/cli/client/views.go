package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Views saves filters of the offenders.
type Views struct{ conn *conn }

// List returns all saved views by name.
func (v Views) List(ctx context.Context) ([]wire.View, error) {
	return items[wire.View](ctx, v.conn, get(wire.PathViews))
}

// Add saves a new view.
func (v Views) Add(ctx context.Context, r wire.ViewRequest) (*wire.View, error) {
	return call[wire.View](ctx, v.conn, post(wire.PathViews, r))
}

// Change renames a view or replaces what it shows.
func (v Views) Change(ctx context.Context, id string, p wire.ViewPatch) (*wire.View, error) {
	return call[wire.View](ctx, v.conn, request{method: http.MethodPatch, path: wire.PathViews + "/" + url.PathEscape(id), body: p})
}

// Delete deletes a saved view.
func (v Views) Delete(ctx context.Context, id string) error {
	return v.conn.do(ctx, remove(wire.PathViews+"/"+url.PathEscape(id), nil), nil)
}
