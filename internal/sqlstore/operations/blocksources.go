package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// BlockSources stores the lists that are pulled. Their rows are entries.
type BlockSources struct{ db *db.DB }

// NewBlockSources returns the store of the lists in a database.
func NewBlockSources(d *db.DB) *BlockSources { return &BlockSources{d} }

const (
	readLists    = `SELECT name, document, header, state, author, created_at FROM block_sources `
	insertList   = `INSERT INTO block_sources (name, document, header, author, created_at, revision) VALUES ($1, $2, $3, $4, $5, $6)`
	setListState = `UPDATE block_sources SET state = $2 WHERE name = $1`
	deleteList   = `DELETE FROM block_sources WHERE name = $1`
)

// MaxLists is the maximum number of lists.
const MaxLists = 100

func headerLabel(name string) string { return "header of the list " + name }

// listDocument is the form of a list in the database and in the audit log, without its header.
type listDocument struct {
	URL       string         `json:"url"`
	As        blocks.ListUse `json:"as"`
	Format    string         `json:"format"`
	Column    string         `json:"column,omitzero"`
	HasHeader bool           `json:"has_header,omitzero"`
	Every     wire.Duration  `json:"every"`
}

func documentOf(l *blocks.List) listDocument {
	return listDocument{l.URL, l.As, l.Format, l.Column, l.HasHeader, wire.Duration(l.Every)}
}

type storedList struct {
	blocks.List
	sealed []byte
}

func scanList(r db.Row) (l storedList, err error) {
	var document, state []byte
	if err := r.Scan(&l.Name, &document, &l.sealed, &state, &l.Author, db.MS(&l.Created)); err != nil {
		return l, err
	}
	var d listDocument
	err = errors.Join(json.Unmarshal(document, &d), json.Unmarshal(state, &l.State))
	l.URL, l.As, l.Format, l.Column, l.HasHeader, l.Every = d.URL, d.As, d.Format, d.Column, d.HasHeader, time.Duration(d.Every)
	return l, err
}

// FindLists returns the lists by name, with their headers if secrets is true.
func (s *BlockSources) FindLists(ctx context.Context, secrets bool) (all []blocks.List, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all = nil
		stored, err := db.Each(t, scanList, readLists+`ORDER BY name`)
		for _, l := range stored {
			if secrets && l.HasHeader {
				header, err := db.Unseal(t, headerLabel(l.Name), l.sealed)
				if errors.Is(err, db.ErrUnsealable) {
					l.State.Problem = "the header of its requests cannot be read; remove the source and add it again"
				} else if err != nil {
					return err
				}
				l.Header = string(header)
			}
			all = append(all, l.List)
		}
		return err
	})
	return all, err
}

// AddList stores a list.
func (s *BlockSources) AddList(ctx context.Context, by audit.Actor, l blocks.List) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		known, err := db.Each(t, scanList, readLists)
		if err != nil {
			return err
		}
		if len(known) >= MaxLists {
			return fault.New(fault.Conflict, "There are %d sources; no more are allowed.", len(known))
		}
		for _, other := range known {
			if other.Name == l.Name {
				return fault.New(fault.Conflict, "There is a source with the name %q already.", l.Name)
			}
		}
		l.HasHeader = l.Header != ""
		document, err := json.Marshal(documentOf(&l))
		if err != nil {
			return err
		}
		var sealed []byte
		if l.HasHeader {
			if sealed, err = db.Seal(t, headerLabel(l.Name), []byte(l.Header)); err != nil {
				return err
			}
		}
		if sealed == nil {
			sealed = []byte{}
		}
		if _, err := t.Exec(insertList, l.Name, string(document), sealed, t.By.Name, db.ToMS(t.Now), t.Revision); err != nil {
			return err
		}
		return t.Record("source.add", "source", l.Name, fmt.Sprintf("Added the source %q (%s).", l.Name, l.As), nil, documentOf(&l))
	})
}

// SetListState stores the state of a list; a list that was removed stays so.
func (s *BlockSources) SetListState(ctx context.Context, name string, state blocks.ListState) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return s.db.Run(ctx, setListState, name, string(text))
}

// DeleteList deletes a list, whose rows must have been ended before.
func (s *BlockSources) DeleteList(ctx context.Context, by audit.Actor, l blocks.List) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		if _, err := t.Exec(deleteList, l.Name); err != nil {
			return err
		}
		return t.Record("source.remove", "source", l.Name, fmt.Sprintf("Removed the source %q.", l.Name), documentOf(&l), nil)
	})
}
