package operations

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// Notes implements admin.NoteStore.
type Notes struct{ db *db.DB }

// NewNotes returns the store of the notes in a database.
func NewNotes(d *db.DB) *Notes { return &Notes{d} }

const (
	addNote    = `INSERT INTO notes (id, key, text, author, created_at) VALUES ($1, $2, $3, $4, $5)`
	findNotes  = `SELECT id, key, text, author, created_at FROM notes WHERE `
	deleteNote = `DELETE FROM notes WHERE id = $1`
)

func scanNote(r db.Row) (n wire.Note, err error) {
	err = r.Scan(&n.ID, &n.Key, &n.Text, &n.Author, db.MS(&n.CreatedAt.Time))
	return n, err
}

// noteSnapshot is the form of a note in the audit log.
type noteSnapshot struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"`
	Text    string    `json:"text"`
	Author  string    `json:"author"`
	Created time.Time `json:"created_at"`
}

func noteSnapshotOf(n wire.Note) noteSnapshot {
	return noteSnapshot{ID: n.ID, Key: n.Key, Text: n.Text, Author: n.Author, Created: n.CreatedAt.Time}
}

// AddNote implements admin.NoteStore.
func (s *Notes) AddNote(ctx context.Context, by audit.Actor, r wire.NoteRequest) (n wire.Note, err error) {
	for field, value := range map[string]string{"key": r.Key, "text": r.Text} {
		if err := db.CheckText(field, value); err != nil {
			return n, err
		}
	}
	id, err := db.NewID()
	if err != nil {
		return n, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		n = wire.Note{ID: id, Key: r.Key, Text: r.Text, Author: by.Name, CreatedAt: wire.At(t.Now)}
		if _, err := t.Exec(addNote, n.ID, n.Key, n.Text, n.Author, db.ToMS(t.Now)); err != nil {
			return err
		}
		return t.Record("note.add", "note", n.ID, fmt.Sprintf("Wrote a note on %q.", n.Key), nil, noteSnapshotOf(n))
	})
	return n, err
}

// FindNotes implements admin.NoteStore.
func (s *Notes) FindNotes(ctx context.Context, f wire.NoteList) (page wire.Page[wire.Note], err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return page, err
	}
	if err := db.CheckText("key", f.Key); err != nil {
		return page, err
	}
	q := &db.Selection{}
	q.And("key = ?", f.Key)
	if err := q.AfterID(f.Cursor); err != nil {
		return page, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, scanNote, findNotes+q.String()+" ORDER BY id DESC LIMIT "+strconv.Itoa(limit+1), q.Args...)
		all, next := db.CutPage(all, limit, func(n wire.Note) string { return paging.Cursor(n.ID) })
		page = wire.Page[wire.Note]{Items: all, NextCursor: wire.NullString(next)}
		return err
	})
	return page, err
}

// DeleteNote implements admin.NoteStore.
func (s *Notes) DeleteNote(ctx context.Context, by audit.Actor, id string) error {
	none := fault.New(fault.NotFound, "There is no note with the id %q.", id)
	if db.CheckText("id", id) != nil {
		return none
	}
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		n, err := db.Find(t, none, scanNote, findNotes+"id = $1", id)
		if err != nil {
			return err
		}
		if _, err := t.Exec(deleteNote, id); err != nil {
			return err
		}
		return t.Record("note.delete", "note", id, fmt.Sprintf("Deleted the note of %q on %q.", n.Author, n.Key), noteSnapshotOf(n), nil)
	})
}
