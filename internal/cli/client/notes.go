package client

import (
	"context"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Notes returns the notes about a key, the newest first, at most limit, all for 0.
func (k Keys) Notes(ctx context.Context, key string, limit int) (Listing[wire.Note], error) {
	return list[wire.Note](ctx, k.conn, wire.PathNotes, url.Values{"key": {key}}, limit)
}

// AddNote writes a note about a key.
func (k Keys) AddNote(ctx context.Context, n wire.NoteRequest) (*wire.Note, error) {
	return call[wire.Note](ctx, k.conn, post(wire.PathNotes, n))
}

// DeleteNote deletes a note. The audit log keeps its text.
func (k Keys) DeleteNote(ctx context.Context, id string) error {
	return k.conn.do(ctx, remove(wire.PathNotes+"/"+url.PathEscape(id), nil), nil)
}
