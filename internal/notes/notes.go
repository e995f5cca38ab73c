// Package notes holds what operators write down about a key for each other.
package notes

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/audit"
)

// MaxText is the largest number of characters in a note, as in the field of the page.
const MaxText = 2000

// Note is what one operator wrote about a key.
type Note struct {
	ID      string // UUIDv7
	Key     string // canonical
	Text    string
	Author  string
	Created time.Time
}

// Store keeps notes. Each change is recorded in the audit. Errors that an
// operator can mend are *fault.Error: Invalid for a text that is empty or too
// long, NotFound for an id that is not there.
type Store interface {
	// AddNote writes a note, whose author is by, and returns it.
	AddNote(ctx context.Context, by audit.Actor, key, text string) (*Note, error)
	// FindNotes returns a page of the notes on a key, the newest first, at most limit, 100
	// for 0: those behind cursor, "" for the first. next is the cursor of the page after,
	// "" on the last.
	FindNotes(ctx context.Context, key, cursor string, limit int) (page []*Note, next string, err error)
	DeleteNote(ctx context.Context, by audit.Actor, id string) (*Note, error)
}
