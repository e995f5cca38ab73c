package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
)

// Undo is the use case of undoing recorded changes.
type Undo struct {
	Records  RecordReader
	Store    audit.Undoer
	Entries  *Entries
	Policies *Policies // says which keys change hands when a change of a policy is undone
}

// RecordReader reads audit records.
type RecordReader interface {
	FindRecordByID(ctx context.Context, id int64) (*audit.Record, error)
}

// MayUndo reports whether a caller may undo a recorded change: blocks,
// exemptions and profiles are for operators, everything else for administrators.
func (c Caller) MayUndo(r *audit.Record) bool { return c.May(accessToUndo(r)) }

func accessToUndo(r *audit.Record) identity.Access {
	if r.Object == string(blocks.Block) || r.Object == string(blocks.Exemption) || r.Object == "profile" {
		return identity.Operate
	}
	return identity.Admin
}

// Undo undoes a recorded change, and returns the record of the undo. It needs a confirmation if
// it makes a broad entry active again or last longer, or if a change of the policy to its earlier
// state does; see Policies.
// confirm repeats the entry's pattern or the policy's name.
func (u *Undo) Undo(ctx context.Context, c Caller, id int64, confirm string) (*audit.Record, error) {
	r, err := u.Records.FindRecordByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.MayUndo(r) {
		return nil, fault.New(fault.Forbidden, "Nothing was changed: undoing a change of a %s needs the access %q.", r.Object, accessToUndo(r))
	}
	if err := u.confirm(ctx, r, strings.TrimSpace(confirm)); err != nil {
		return nil, err
	}
	return u.Store.Undo(ctx, c.Actor, id)
}

func (u *Undo) confirm(ctx context.Context, r *audit.Record, confirm string) error {
	if r.Object == "policy" {
		after, isUndone, err := restoredPolicy(r)
		if err != nil || !isUndone {
			return err
		}
		_, err = u.Policies.confirm(ctx, r.ObjectID, after, etag.Any, confirm)
		if fault.Is(err, fault.NotFound) {
			return nil // the store says what has changed since
		}
		return err
	}
	var restored []keys.Pattern
	if p, err := restoredPattern(r); err != nil {
		return err
	} else if !p.IsZero() {
		restored = append(restored, p)
	}
	return u.Entries.confirm(ctx, blocks.Kind(r.Object), confirm, restored)
}

// restoredPattern returns the pattern of the entry that undoing a change makes active again or
// last longer, zero if it does neither. The record is sufficient: the store does not undo a
// change of an entry that has changed since.
func restoredPattern(r *audit.Record) (keys.Pattern, error) {
	object, action, _ := strings.Cut(r.Action, ".")
	if object != string(blocks.Block) && object != string(blocks.Exemption) {
		return keys.Pattern{}, nil
	}
	switch action {
	case "end", "replace", "extend", "update":
	default:
		return keys.Pattern{}, nil
	}
	var before, after struct {
		Pattern string    `json:"pattern"`
		Expires time.Time `json:"expires_at"` // zero: permanent
	}
	if err := json.Unmarshal(r.Before, &before); err != nil {
		return keys.Pattern{}, fmt.Errorf("audit record %d: %w", r.ID, err)
	}
	if action == "extend" || action == "update" {
		if err := json.Unmarshal(r.After, &after); err != nil {
			return keys.Pattern{}, fmt.Errorf("audit record %d: %w", r.ID, err)
		}
		if !blocks.IsLater(before.Expires, after.Expires) {
			return keys.Pattern{}, nil
		}
	}
	p, err := keys.Parser{}.Pattern(before.Pattern)
	if err != nil {
		return keys.Pattern{}, fmt.Errorf("audit record %d: %w", r.ID, err)
	}
	return p, nil
}
