package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Entries manages blocks or exemptions.
type Entries struct {
	conn *conn
	path string // of the collection
}

// List returns the entries that filter selects: at most limit, all for 0. filter holds
// the API's query parameters.
func (e Entries) List(ctx context.Context, filter url.Values, limit int) (Listing[wire.Entry], error) {
	return list[wire.Entry](ctx, e.conn, e.path, filter, limit)
}

// Get returns one entry.
func (e Entries) Get(ctx context.Context, id string) (*wire.Entry, error) {
	return call[wire.Entry](ctx, e.conn, get(e.pathOf(id)))
}

// Add adds an entry; a broad one needs Confirm.
func (e Entries) Add(ctx context.Context, entry wire.AddEntry) (*wire.AddedEntry, error) {
	return call[wire.AddedEntry](ctx, e.conn, post(e.path, entry))
}

// Edit changes the reason or the expiry of an entry.
func (e Entries) Edit(ctx context.Context, id string, change wire.EntryPatch) (*wire.Entry, error) {
	return call[wire.Entry](ctx, e.conn, request{method: http.MethodPatch, path: e.pathOf(id), body: change})
}

// End ends an entry now, or the share of one source in it.
func (e Entries) End(ctx context.Context, id string, end wire.EndRequest) (*wire.Entry, error) {
	return call[wire.Entry](ctx, e.conn, remove(e.pathOf(id), end))
}

// Restore makes an ended entry active again; a broad one needs confirm.
func (e Entries) Restore(ctx context.Context, id, confirm string) (*wire.Entry, error) {
	return call[wire.Entry](ctx, e.conn, post(e.pathOf(id)+"/restore", wire.RestoreRequest{Confirm: confirm}))
}

func (e Entries) pathOf(id string) string { return e.path + "/" + url.PathEscape(id) }
