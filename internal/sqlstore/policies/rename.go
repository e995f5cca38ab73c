package policies

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	renamePolicy = `UPDATE policies SET name = $2 WHERE id = $1`
	renamePause  = `UPDATE escalation_pauses SET policy = $2 WHERE policy_id = $1`
)

// RenamePolicy implements rules.Store.
func (s *Store) RenamePolicy(ctx context.Context, by audit.Actor, name, to string, expect etag.Tag) (renamed *rules.Policy, err error) {
	if err := rules.CheckName(to); err != nil {
		return nil, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		all, err := In(t).Policies()
		if err != nil {
			return err
		}
		current := named(all, name)
		if current == nil {
			return In(t).noPolicy(name)
		}
		if err := In(t).checkExpected(name, current, expect); err != nil {
			return err
		}
		renamed, err = In(t).rename(all, current, to)
		return err
	})
	if err != nil {
		return nil, err
	}
	return renamed, nil
}

func named(all []*Stored, name string) *Stored {
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// rename renames a policy and its draft.
func (t Tx) rename(all []*Stored, current *Stored, to string) (*rules.Policy, error) {
	if to == current.Name {
		return current.Policy, db.ErrUnchanged
	}
	if named(all, to) != nil {
		e := fault.New(fault.Conflict, "There is a policy named %q already.", to)
		e.Field = "name"
		return nil, e
	}
	if draft := named(all, rules.DraftName(current.Name)); draft != nil && draft.Mode == rules.Shadow {
		if _, err := t.rename(all, draft, rules.DraftName(to)); err != nil {
			return nil, err
		}
	}
	next := *current.Policy
	next.Name = to
	if err := next.Validate(); err != nil { // the name of a draft may be too long
		return nil, err
	}
	if _, err := t.Exec(renamePolicy, current.ID, to); err != nil {
		return nil, err
	}
	if _, err := t.Exec(renamePause, current.ID, to); err != nil {
		return nil, err
	}
	return t.nextVersion(current, &next, "policy.rename", fmt.Sprintf("Renamed the policy %q to %q.", current.Name, to))
}
