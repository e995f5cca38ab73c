package operations

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var _ notes.Store = (*Notes)(nil)

// Notes implements notes.Store.
type Notes struct{ db *db.DB }

// NewNotes returns the store of the notes in a database.
func NewNotes(d *db.DB) *Notes { return &Notes{d} }

const (
	addNote    = `INSERT INTO notes (id, key, text, author, created_at) VALUES ($1, $2, $3, $4, $5)`
	findNotes  = `SELECT id, key, text, author, created_at FROM notes WHERE `
	deleteNote = `DELETE FROM notes WHERE id = $1`
)

func scanNote(r db.Row) (*notes.Note, error) {
	n := &notes.Note{}
	var created int64
	if err := r.Scan(&n.ID, &n.Key, &n.Text, &n.Author, &created); err != nil {
		return nil, err
	}
	n.Created = db.FromMS(created)
	return n, nil
}

// noteSnapshot is the form of a note in the audit log.
type noteSnapshot struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"`
	Text    string    `json:"text"`
	Author  string    `json:"author"`
	Created time.Time `json:"created_at"`
}

// AddNote implements notes.Store.
func (s *Notes) AddNote(ctx context.Context, by audit.Actor, key, text string) (*notes.Note, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, fault.Field("text", "is empty; write what others should know about this key")
	}
	if n := utf8.RuneCountInString(text); n > notes.MaxText {
		return nil, fault.Field("text", "has %d characters; at most %d are allowed", n, notes.MaxText)
	}
	for field, value := range map[string]string{"key": key, "text": text} {
		if err := db.CheckText(field, value); err != nil {
			return nil, err
		}
	}
	id, err := db.NewID()
	if err != nil {
		return nil, err
	}
	n := &notes.Note{ID: id, Key: key, Text: text, Author: by.Name}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		n.Created = t.Now
		if _, err := t.Exec(addNote, n.ID, n.Key, n.Text, n.Author, db.ToMS(n.Created)); err != nil {
			return err
		}
		return t.Record("note.add", "note", n.ID, fmt.Sprintf("Wrote a note on %q.", n.Key), nil, noteSnapshot(*n))
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// FindNotes implements notes.Store.
func (s *Notes) FindNotes(ctx context.Context, key, cursor string, limit int) (page []*notes.Note, next string, err error) {
	if limit, err = db.PageLimit(limit); err != nil {
		return nil, "", err
	}
	if err := db.CheckText("key", key); err != nil {
		return nil, "", err
	}
	q := &db.Selection{}
	q.And("key = ?", key)
	if err := q.AfterID(cursor); err != nil {
		return nil, "", err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, scanNote, findNotes+q.String()+" ORDER BY id DESC LIMIT "+strconv.Itoa(limit+1), q.Args...)
		page, next = db.CutPage(all, limit, func(n *notes.Note) string { return db.Cursor(n.ID) })
		return err
	})
	return page, next, err
}

// DeleteNote implements notes.Store.
func (s *Notes) DeleteNote(ctx context.Context, by audit.Actor, id string) (n *notes.Note, err error) {
	none := fault.New(fault.NotFound, "There is no note with the id %q.", id)
	if db.CheckText("id", id) != nil {
		return nil, none
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		all, err := db.Each(t, scanNote, findNotes+"id = $1", id)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return none
		}
		n = all[0]
		if _, err := t.Exec(deleteNote, id); err != nil {
			return err
		}
		return t.Record("note.delete", "note", id, fmt.Sprintf("Deleted the note of %q on %q.", n.Author, n.Key), noteSnapshot(*n), nil)
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}
