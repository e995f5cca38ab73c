package policies

import (
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// readDeletion reads the revision that deleted the newest policy of a name.
const readDeletion = `SELECT revision FROM policies WHERE name = $1 ORDER BY id DESC LIMIT 1`

// Undo undoes a change of a policy.
func (t Tx) Undo(e *audit.Record, action string) error {
	all, err := t.Policies()
	if err != nil {
		return err
	}
	current := named(all, e.ObjectID)
	if action == "delete" {
		var deleted int64
		if _, err := t.One(readDeletion, []any{e.ObjectID}, &deleted); err != nil {
			return err
		}
		if current != nil || deleted != e.Revision {
			return db.ChangedSince(e)
		}
	} else if current == nil || current.Revision != e.Revision {
		return db.ChangedSince(e)
	}
	if action == "create" {
		return t.deletePolicy(current)
	}
	if action != "replace" && action != "delete" && action != "rename" {
		return db.NotUndoable(e)
	}
	before := &Stored{Policy: &rules.Policy{}}
	if err := before.parse(string(e.Before)); err != nil {
		return fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if action == "rename" {
		_, err := t.rename(all, current, before.Name)
		return err
	}
	if err := checkPatterns(before.Policy, all); err != nil {
		return err
	}
	if current != nil {
		_, err = t.replacePolicy(current, before.Policy)
		return err
	}
	_, err = t.createPolicy(before.Policy, fmt.Sprintf("Created the policy %q again. It begins at version 1: its earlier versions, counts and levels of escalation do not come back.", before.Name))
	return err
}
