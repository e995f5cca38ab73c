package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Notes returns the newest notes about a key.
func (k Keys) Notes(ctx context.Context, key string) ([]wire.Note, error) {
	return items[wire.Note](ctx, k.conn, get(wire.PathNotes).with(url.Values{"key": {key}, "limit": {strconv.Itoa(pageSize)}}))
}

// AddNote writes a note about a key.
func (k Keys) AddNote(ctx context.Context, n wire.NoteRequest) (*wire.Note, error) {
	return call[wire.Note](ctx, k.conn, post(wire.PathNotes, n))
}

// DeleteNote deletes a note. The audit keeps its text.
func (k Keys) DeleteNote(ctx context.Context, id string) error {
	return k.conn.do(ctx, remove(wire.PathNotes+"/"+url.PathEscape(id), nil), nil)
}
