package admin

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// NoteStore keeps what operators write about keys for each other. Each change is recorded in the
// audit log.
type NoteStore interface {
	FindNotes(ctx context.Context, f wire.NoteList) (wire.Page[wire.Note], error)
	// AddNote writes a note, whose author is by.
	AddNote(ctx context.Context, by audit.Actor, r wire.NoteRequest) (wire.Note, error)
	DeleteNote(ctx context.Context, by audit.Actor, id string) error
}

// MaxNote is the largest number of characters in a note, as in the field of the page.
const MaxNote = 2000

var errNoNotes = fault.New(fault.NotFound, "This node keeps no notes.")

// HasNotes reports whether the node stores notes.
func (k *Keys) HasNotes() bool { return k.Notes != nil }

// FindNotes returns a page of the notes about a key, the newest first.
func (k *Keys) FindNotes(ctx context.Context, _ Caller, f wire.NoteList) (page wire.Page[wire.Note], err error) {
	key, err := k.Parse(ctx, f.Key)
	if err != nil {
		return page, err
	}
	if k.Notes == nil {
		return page, errNoNotes
	}
	f.Key = key.String()
	return k.Notes.FindNotes(ctx, f)
}

// AddNote adds a note about a key. It converts the line ends of a form to line feeds.
func (k *Keys) AddNote(ctx context.Context, by Caller, r wire.NoteRequest) (note wire.Note, err error) {
	if k.Notes == nil {
		return note, errNoNotes
	}
	key, err := k.Parse(ctx, r.Key)
	if err != nil {
		return note, err
	}
	r.Key, r.Text = key.String(), strings.TrimSpace(strings.ReplaceAll(r.Text, "\r\n", "\n"))
	if r.Text == "" {
		return note, fault.Field("text", "is empty; write what others should know about this key")
	}
	if n := utf8.RuneCountInString(r.Text); n > MaxNote {
		return note, fault.Field("text", "has %d characters; at most %d are allowed", n, MaxNote)
	}
	return k.Notes.AddNote(ctx, by.Actor, r)
}

// DeleteNote deletes a note.
func (k *Keys) DeleteNote(ctx context.Context, by Caller, r wire.ByID) (wire.None, error) {
	if k.Notes == nil {
		return wire.None{}, errNoNotes
	}
	return wire.None{}, k.Notes.DeleteNote(ctx, by.Actor, r.ID)
}
