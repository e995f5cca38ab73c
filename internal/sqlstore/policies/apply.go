package policies

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// ApplyPolicies implements rules.Store.
func (s *Store) ApplyPolicies(ctx context.Context, by audit.Actor, changes []rules.PolicyChange) (after []*rules.Policy, err error) {
	if err := checkChanges(changes); err != nil {
		return nil, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		after, err = In(t).applyPolicies(changes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// CheckPolicies implements rules.Store.
func (s *Store) CheckPolicies(ctx context.Context, changes []rules.PolicyChange) error {
	if err := checkChanges(changes); err != nil {
		return err
	}
	return s.db.View(ctx, func(t *db.Tx) error {
		_, err := In(t).check(changes)
		return err
	})
}

func checkChanges(changes []rules.PolicyChange) error {
	named := map[string]bool{}
	for i, c := range changes {
		if named[c.Name] {
			return fault.Field(fmt.Sprintf("policies[%d].name", i), "names %q a second time", c.Name)
		}
		named[c.Name] = true
		if c.Policy == nil {
			continue
		}
		if c.Policy.Name != c.Name {
			return fmt.Errorf("change %d of %q holds the policy %q", i, c.Name, c.Policy.Name)
		}
		if err := c.Policy.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// check returns the present policies by name, or why the changes cannot be made.
func (t Tx) check(changes []rules.PolicyChange) (map[string]*Stored, error) {
	all, err := t.Policies()
	if err != nil {
		return nil, err
	}
	current := make(map[string]*Stored, len(all))
	for _, p := range all {
		current[p.Name] = p
	}
	for _, c := range changes {
		if c.Policy == nil && current[c.Name] == nil {
			return nil, t.noPolicy(c.Name)
		}
		if err := t.checkExpected(c.Name, current[c.Name], c.Expect); err != nil {
			return nil, err
		}
	}
	return current, checkEnd(all, changes)
}

// applyPolicies makes the changes, or returns errUnchanged if all policies are already as
// wanted.
func (t Tx) applyPolicies(changes []rules.PolicyChange) ([]*rules.Policy, error) {
	current, err := t.check(changes)
	if err != nil {
		return nil, err
	}
	after := make([]*rules.Policy, len(changes))
	changed := false
	for i, c := range changes {
		p, err := t.applyPolicy(current[c.Name], c)
		switch {
		case errors.Is(err, db.ErrUnchanged):
		case err != nil:
			return nil, err
		default:
			changed = true
		}
		after[i] = p
	}
	if !changed {
		return after, db.ErrUnchanged
	}
	return after, nil
}

func (t Tx) applyPolicy(current *Stored, c rules.PolicyChange) (*rules.Policy, error) {
	switch {
	case c.Policy == nil:
		return nil, t.deletePolicy(current)
	case current == nil:
		return t.CreatePolicy(c.Policy)
	}
	return t.replacePolicy(current, c.Policy)
}

// checkEnd refuses changes after which two policies would have the same pattern.
func checkEnd(all []*Stored, changes []rules.PolicyChange) error {
	touched := map[string]bool{}
	for _, c := range changes {
		touched[c.Name] = true
	}
	var end []*Stored
	for _, p := range all {
		if !touched[p.Name] {
			end = append(end, p)
		}
	}
	for _, c := range changes {
		if c.Policy == nil {
			continue
		}
		if err := checkPatterns(c.Policy, end); err != nil {
			return err
		}
		end = append(end, &Stored{Policy: c.Policy})
	}
	return nil
}
