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
	// liftImported ends what one import made and nobody has changed since.
	liftImported = `
UPDATE blocks SET ended_at = $2, ended_by = $3, place = id, revision = $4
WHERE revision = $1 AND place = '' AND ended_at = 0 AND expires_at > $2`
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
		return t.undoItem(blockShelf, e, action)
	case "exemption":
		return t.undoItem(exemptionShelf, e, action)
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

// undoItem undoes a change of one block or exemption.
func (t *tx) undoItem(s *shelf, e *audit.Record, action string) error {
	now, err := t.findItem(s, e.ObjectID)
	if err != nil {
		return err
	}
	if now.Revision != e.Revision {
		return changedSince(e)
	}
	switch action {
	case "add":
		_, err = t.endItem(s, now.ID, "")
	case "extend", "update":
		err = t.setBack(s, e, now)
	case "replace":
		if _, err = t.endItem(s, now.ID, ""); err == nil {
			err = t.standAgain(s, e)
		}
	case s.end:
		err = t.standAgain(s, e)
	default:
		err = notUndoable(e)
	}
	return err
}

// setBack gives an item its former reason and end again.
func (t *tx) setBack(s *shelf, e *audit.Record, now *item) error {
	before, err := itemBefore(e)
	if err != nil {
		return err
	}
	if !before.Expires.IsZero() && !t.now.Before(before.Expires) {
		return overMeanwhile(s, before)
	}
	_, err = t.updateItem(s, now.ID, blocks.Update{Reason: &before.Reason, Expires: &before.Expires})
	return err
}

// standAgain adds what an entry ended anew, until its former end.
func (t *tx) standAgain(s *shelf, e *audit.Record) error {
	before, err := itemBefore(e)
	if err != nil {
		return err
	}
	if !before.Expires.IsZero() && !t.now.Before(before.Expires) {
		return overMeanwhile(s, before)
	}
	before.Author = "" // whoever undoes answers for it
	_, err = t.addItem(s, *before, blocks.Fail)
	return err
}

func overMeanwhile(s *shelf, before *item) error {
	return fault.New(fault.Conflict, "The former %s of %q would have ended at %s; add a new one instead.",
		s.object, before.Pattern, before.Expires.Format("2006-01-02T15:04:05Z"))
}

func itemBefore(e *audit.Record) (*item, error) {
	var was itemSnapshot
	if err := json.Unmarshal(e.Before, &was); err != nil {
		return nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	pattern, err := keys.Parser{}.Pattern(was.Pattern)
	if err != nil {
		return nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	return &item{
		Pattern: pattern, Reason: was.Reason, Author: was.Author, Source: was.Source, Policy: was.Policy,
		Step: was.Step, Created: was.Created, Expires: was.Expires.UTC(), Ended: was.Ended, EndedBy: was.EndedBy,
	}, nil
}

// importCounts is what the audit keeps of an import.
type importCounts struct {
	Created  int `json:"created"`
	Extended int `json:"extended"`
	Replaced int `json:"replaced"`
	Known    int `json:"known"`
}

// undoImport lifts what an import made. What it extended or replaced is no
// longer known one by one, so that such an import stands.
func (t *tx) undoImport(e *audit.Record) error {
	var did importCounts
	if err := json.Unmarshal(e.After, &did); err != nil {
		return fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if did.Extended+did.Replaced > 0 {
		return fault.New(fault.Conflict, "The import of entry %d extended or replaced %d blocks, whose former ends are not kept; it cannot be undone.",
			e.ID, did.Extended+did.Replaced)
	}
	lifted, err := t.exec(liftImported, e.Revision, toMS(t.now), t.by.Name, t.revision)
	if err != nil {
		return err
	}
	if lifted == 0 {
		return errUnchanged
	}
	summary := fmt.Sprintf("Lifted %d of the %d blocks of an import.", lifted, did.Created)
	return t.record("block.lift_import", "block", strconv.FormatInt(t.revision, 10), summary, did, struct {
		Lifted int64 `json:"lifted"`
	}{lifted})
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
