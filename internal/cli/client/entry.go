package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Entries requests blocks or exemptions, by the path of their kind: wire.PathBlocks
// or wire.PathExemptions.
type Entries struct {
	client *Client
	path   string
}

// Entries returns the entries under a path.
func (c *Client) Entries(path string) Entries { return Entries{c, path} }

// List returns the entries that filter, in the API's query parameters, selects: at
// most limit, all for 0.
func (e Entries) List(ctx context.Context, filter url.Values, limit int) (Listing[wire.Entry], error) {
	return list[wire.Entry](ctx, e.client, e.path, filter, limit)
}

// Get returns one entry.
func (e Entries) Get(ctx context.Context, id string) (*wire.Entry, error) {
	return e.one(ctx, http.MethodGet, e.pathOf(id), nil)
}

// Add adds an entry; a broad one needs Confirm.
func (e Entries) Add(ctx context.Context, entry wire.AddEntry) (*wire.AddedEntry, error) {
	added := &wire.AddedEntry{}
	err := e.client.do(ctx, request{method: http.MethodPost, path: e.path, body: entry}, added)
	return added, err
}

// Edit changes the reason or the expiry of an entry.
func (e Entries) Edit(ctx context.Context, id string, change wire.EntryPatch) (*wire.Entry, error) {
	return e.one(ctx, http.MethodPatch, e.pathOf(id), change)
}

// End ends an entry now. The reason may be empty.
func (e Entries) End(ctx context.Context, id, reason string) (*wire.Entry, error) {
	return e.one(ctx, http.MethodDelete, e.pathOf(id), wire.EndRequest{Reason: reason})
}

// Restore makes an ended entry active again; a broad one needs confirm.
func (e Entries) Restore(ctx context.Context, id, confirm string) (*wire.Entry, error) {
	return e.one(ctx, http.MethodPost, e.pathOf(id)+"/restore", wire.RestoreRequest{Confirm: confirm})
}

func (e Entries) one(ctx context.Context, method, path string, body any) (*wire.Entry, error) {
	entry := &wire.Entry{}
	err := e.client.do(ctx, request{method: method, path: path, body: body}, entry)
	return entry, err
}

func (e Entries) pathOf(id string) string { return e.path + "/" + url.PathEscape(id) }
