package policyfile

import (
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Plan returns the changes that make the current policies equal to wanted, which must be
// canonical: one for each policy, sorted by name, the deletions last. Policies that are
// not wanted stay unless prune is set.
func Plan(current []wire.Policy, wanted []wire.PolicyRequest, prune bool) ([]wire.PolicyChange, error) {
	known := map[string]wire.PolicyChange{}
	var deletions []wire.PolicyChange
	for _, p := range current {
		before, err := Canonical(p.Request())
		if err != nil {
			return nil, err
		}
		c := wire.PolicyChange{Name: p.Name, Action: wire.PolicyDelete, Version: &p.Version, Before: &before}
		if c.Fields, err = Diff(&before, nil); err != nil {
			return nil, err
		}
		known[p.Name] = c
		if prune && !slices.ContainsFunc(wanted, func(w wire.PolicyRequest) bool { return w.Name == p.Name }) {
			deletions = append(deletions, c)
		}
	}
	changes := make([]wire.PolicyChange, 0, len(wanted)+len(deletions))
	for i := range wanted {
		c, exists := known[wanted[i].Name]
		c.Name, c.After, c.Action = wanted[i].Name, &wanted[i], wire.PolicyReplace
		var err error
		if c.Fields, err = Diff(c.Before, c.After); err != nil {
			return nil, err
		}
		switch {
		case !exists:
			c.Action = wire.PolicyCreate
		case len(c.Fields) == 0:
			c.Action = wire.PolicyKeep
		}
		changes = append(changes, c)
	}
	byName := func(a, b wire.PolicyChange) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(changes, byName)
	slices.SortFunc(deletions, byName)
	return append(changes, deletions...), nil
}

// Diff returns the fields in which two valid policies differ. nil is no policy.
func Diff(before, after *wire.PolicyRequest) ([]wire.FieldChange, error) {
	var parsed [2]*rules.Policy
	for i, p := range []*wire.PolicyRequest{before, after} {
		var err error
		if p == nil {
			continue
		}
		if parsed[i], err = Policy(*p); err != nil {
			return nil, err
		}
	}
	changes := []wire.FieldChange{}
	for _, c := range rules.Diff(parsed[0], parsed[1]) {
		changes = append(changes, wire.FieldChange(c))
	}
	return changes, nil
}
