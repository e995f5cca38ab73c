package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

var _ audit.Undoer = (*Store)(nil)

const (
	readNewestEntry = `SELECT max(id) FROM audit WHERE revision = $1`
	// endImported ends what one import made and nobody has changed since.
	endImported = `
UPDATE entries SET ended_at = $2, ended_by = $3, place = id, revision = $4
WHERE revision = $1 AND kind = 'block' AND place = '' AND ended_at = 0 AND expires_at > $2`
)

// Undo implements audit.Undoer.
func (s *Store) Undo(ctx context.Context, by audit.Actor, id int64) (made *audit.Record, err error) {
	err = s.change(ctx, by, func(t *tx) error {
		e, err := t.entry(id)
		if err != nil {
			return err
		}
		t.undoing = id
		if err := t.undo(e); err != nil {
			if errors.Is(err, errUnchanged) {
				err = fault.New(fault.Conflict, "Nothing is left of entry %d to undo.", id)
			}
			return err
		}
		var newest int64
		if _, err := t.one(readNewestEntry, []any{t.revision}, &newest); err != nil {
			return err
		}
		made, err = t.entry(newest)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (t *tx) undo(e *audit.Record) error {
	_, action, _ := strings.Cut(e.Action, ".")
	switch e.Object {
	case "block":
		if action == "import" {
			return t.undoImport(e)
		}
		return entryTx{t}.undo(blocks.Block, e, action)
	case "exemption":
		return entryTx{t}.undo(blocks.Exemption, e, action)
	case "policy":
		return t.undoPolicy(e, action)
	}
	return notUndoable(e)
}

func notUndoable(e *audit.Record) error {
	return fault.New(fault.Conflict, "Entry %d, %q, is no change that can be undone.", e.ID, e.Action)
}

func changedSince(e *audit.Record) error {
	return fault.New(fault.Conflict, "The %s has changed since entry %d; undo the later change first.", e.Object, e.ID)
}

// undo undoes a change of one block or exemption.
func (t entryTx) undo(kind blocks.Kind, e *audit.Record, action string) error {
	now, err := t.find(kind, e.ObjectID)
	if err != nil {
		return err
	}
	if now.Revision != e.Revision {
		return changedSince(e)
	}
	switch action {
	case "add", "restore":
		_, err = t.end(kind, now.ID, "")
	case "extend", "update":
		err = t.undoUpdate(e, now)
	case "replace":
		if _, err = t.end(kind, now.ID, ""); err == nil {
			err = t.restoreFormer(e)
		}
	case "end":
		_, err = t.restore(kind, now.ID)
	default:
		err = notUndoable(e)
	}
	return err
}

// undoUpdate gives an entry its former reason and expiry again.
func (t entryTx) undoUpdate(e *audit.Record, now *blocks.Entry) error {
	former, err := formerEntry(e)
	if err != nil {
		return err
	}
	if former.ExpiredAt(t.now) {
		return expiredSince(former)
	}
	_, err = t.update(now.Kind, now.ID, blocks.Update{Reason: &former.Reason, Expires: &former.Expires})
	return err
}

// restoreFormer restores what an audit record says was replaced.
func (t entryTx) restoreFormer(e *audit.Record) error {
	former, err := formerEntry(e)
	if err != nil {
		return err
	}
	_, err = t.restore(former.Kind, former.ID)
	return err
}

func formerEntry(e *audit.Record) (*blocks.Entry, error) {
	var was entrySnapshot
	if err := json.Unmarshal(e.Before, &was); err != nil {
		return nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	pattern, err := keys.Parser{}.Pattern(was.Pattern)
	if err != nil {
		return nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	return &blocks.Entry{
		ID: was.ID, Kind: blocks.Kind(was.Kind), Pattern: pattern, Reason: was.Reason, Author: was.Author, Source: blocks.Source(was.Source),
		PolicyID: was.PolicyID, Level: was.Level, Created: was.Created, Expires: was.Expires.UTC(), Ended: was.Ended, EndedBy: was.EndedBy,
	}, nil
}

// importCounts is what the audit keeps of an import.
type importCounts struct {
	Created   int `json:"created"`
	Extended  int `json:"extended"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
}

// undoImport ends the blocks that an import made. An import that extended or
// replaced blocks cannot be undone: their former ends are not kept.
func (t *tx) undoImport(e *audit.Record) error {
	var did importCounts
	if err := json.Unmarshal(e.After, &did); err != nil {
		return fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if did.Extended+did.Replaced > 0 {
		return fault.New(fault.Conflict, "The import of entry %d extended or replaced %d blocks, whose former ends are not kept; it cannot be undone.",
			e.ID, did.Extended+did.Replaced)
	}
	ended, err := t.exec(endImported, e.Revision, toMS(t.now), t.by.Name, t.revision)
	if err != nil {
		return err
	}
	if ended == 0 {
		return errUnchanged
	}
	summary := fmt.Sprintf("Ended %d of the %d blocks of an import.", ended, did.Created)
	return t.record("block.end_import", "block", strconv.FormatInt(t.revision, 10), summary, did, struct {
		Ended int64 `json:"ended"`
	}{ended})
}

func (t *tx) undoPolicy(e *audit.Record, action string) error {
	all, err := policiesIn(t).policies()
	if err != nil {
		return err
	}
	var current *storedPolicy
	for _, p := range all {
		if p.Name == e.ObjectID {
			current = p
		}
	}
	if action == "delete" {
		if current != nil {
			return changedSince(e)
		}
	} else if current == nil || current.Revision != e.Revision {
		return changedSince(e)
	}
	if action == "create" {
		return policiesIn(t).deletePolicy(current)
	}
	if action != "replace" && action != "delete" {
		return notUndoable(e)
	}
	before := &storedPolicy{Policy: &rules.Policy{}}
	if err := before.parse(string(e.Before)); err != nil {
		return fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if err := checkPatterns(before.Policy, all); err != nil {
		return err
	}
	_, err = policiesIn(t).applyPolicy(current, rules.PolicyChange{Name: before.Name, Policy: before.Policy})
	return err
}
