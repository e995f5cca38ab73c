package audit

import (
	"context"
	"iter"
	"time"
)

// Filter selects entries. Zero fields select all.
type Filter struct {
	From, To time.Time // From inclusive, To exclusive
	Actor    string    // the actor's name
	Action   string    // an action, or the part before the dot
	Object   string
	ObjectID string
	Search   string // in summary and object id, without case
	Cursor   string
	Limit    int // 1 to 1000, 0 means 100
}

// Page is one page of entries, the newest first.
type Page struct {
	Entries []*Entry
	Next    string
}

// Store reads the record of changes. Nothing in Stint changes or removes an
// entry but retention, and the chain tells where somebody else did; they are written by the stores that make the changes,
// in the same transaction.
type Store interface {
	Verifier
	FindEntries(ctx context.Context, f Filter) (Page, error)
	FindEntryByID(ctx context.Context, id int64) (*Entry, error)
	EachEntry(ctx context.Context, f Filter) iter.Seq2[*Entry, error]
}
