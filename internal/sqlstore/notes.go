package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notes"
)

var _ notes.Store = (*Store)(nil)

const (
	addNote    = `INSERT INTO notes (id, key, text, author, created_at) VALUES ($1, $2, $3, $4, $5)`
	findNotes  = `SELECT id, key, text, author, created_at FROM notes WHERE `
	deleteNote = `DELETE FROM notes WHERE id = $1`
)

func scanNote(r row) (*notes.Note, error) {
	n := &notes.Note{}
	var created int64
	if err := r.Scan(&n.ID, &n.Key, &n.Text, &n.Author, &created); err != nil {
		return nil, err
	}
	n.Created = fromMS(created)
	return n, nil
}

// noteSnapshot is what the audit keeps of a note.
type noteSnapshot struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"`
	Text    string    `json:"text"`
	Author  string    `json:"author"`
	Created time.Time `json:"created_at"`
}

// AddNote implements notes.Store.
func (s *auditStore) AddNote(ctx context.Context, by audit.Actor, key, text string) (*notes.Note, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, fault.Field("text", "is empty; write what others should know about this key")
	case len(text) > notes.MaxText:
		return nil, fault.Field("text", "has %d bytes; at most %d are allowed", len(text), notes.MaxText)
	}
	for field, value := range map[string]string{"key": key, "text": text} {
		if err := checkText(field, value); err != nil {
			return nil, err
		}
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	n := &notes.Note{ID: id, Key: key, Text: text, Author: by.Name}
	err = s.change(ctx, by, func(t *tx) error {
		n.Created = t.now
		if _, err := t.exec(addNote, n.ID, n.Key, n.Text, n.Author, toMS(n.Created)); err != nil {
			return err
		}
		return t.record("note.add", "note", n.ID, fmt.Sprintf("Wrote a note on %q.", n.Key), nil, noteSnapshot(*n))
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// FindNotes implements notes.Store.
func (s *auditStore) FindNotes(ctx context.Context, key string, limit int) (all []*notes.Note, err error) {
	if limit, err = pageLimit(limit); err != nil {
		return nil, err
	}
	if err := checkText("key", key); err != nil {
		return nil, err
	}
	err = s.view(ctx, func(t *tx) error {
		all, err = each(t, scanNote, findNotes+"key = $1 ORDER BY id DESC LIMIT "+strconv.Itoa(limit), key)
		return err
	})
	return all, err
}

// DeleteNote implements notes.Store.
func (s *auditStore) DeleteNote(ctx context.Context, by audit.Actor, id string) (n *notes.Note, err error) {
	none := fault.New(fault.NotFound, "There is no note with the id %q.", id)
	if checkText("id", id) != nil {
		return nil, none
	}
	err = s.change(ctx, by, func(t *tx) error {
		all, err := each(t, scanNote, findNotes+"id = $1", id)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return none
		}
		n = all[0]
		if _, err := t.exec(deleteNote, id); err != nil {
			return err
		}
		return t.record("note.delete", "note", id, fmt.Sprintf("Deleted the note of %q on %q.", n.Author, n.Key), noteSnapshot(*n), nil)
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}
