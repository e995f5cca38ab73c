package sqlstore

import (
	"context"
	"errors"
	"strings"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
	"github.com/stint-dev/stint/internal/sqlstore/policies"
	sqlprofiles "github.com/stint-dev/stint/internal/sqlstore/profiles"
)

var _ audit.Undoer = (*Store)(nil)

const readNewestRecord = `SELECT max(id) FROM audit WHERE revision = $1`

// Undo implements audit.Undoer.
func (s *Store) Undo(ctx context.Context, by audit.Actor, id int64) (made *audit.Record, err error) {
	err = s.Change(ctx, by, func(t *db.Tx) error {
		e, err := t.FindRecord(id)
		if err != nil {
			return err
		}
		t.Undoing = id
		if err := undo(t, e); err != nil {
			if errors.Is(err, db.ErrUnchanged) {
				err = fault.New(fault.Conflict, "Nothing is left of entry %d to undo.", id)
			}
			return err
		}
		var newest int64
		if _, err := t.One(readNewestRecord, []any{t.Revision}, &newest); err != nil {
			return err
		}
		made, err = t.FindRecord(newest)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func undo(t *db.Tx, e *audit.Record) error {
	_, action, _ := strings.Cut(e.Action, ".")
	switch e.Object {
	case "block", "exemption":
		return entries.In(t).Undo(e, action)
	case "policy":
		return policies.In(t).Undo(e, action)
	case "profile":
		return sqlprofiles.In(t).Undo(e, action)
	}
	return db.NotUndoable(e)
}
