package policyfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
		c := wire.PolicyChange{Name: p.Name, Action: wire.PolicyDelete, Version: &p.Version, Before: &before, Fields: Diff(&before, nil)}
		known[p.Name] = c
		if prune && !slices.ContainsFunc(wanted, func(w wire.PolicyRequest) bool { return w.Name == p.Name }) {
			deletions = append(deletions, c)
		}
	}
	changes := make([]wire.PolicyChange, 0, len(wanted)+len(deletions))
	for i := range wanted {
		c, exists := known[wanted[i].Name]
		c.Name, c.After, c.Action = wanted[i].Name, &wanted[i], wire.PolicyReplace
		c.Fields = Diff(c.Before, c.After)
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

// Diff returns the fields in which two canonical policies differ. nil is no
// policy.
func Diff(before, after *wire.PolicyRequest) []wire.FieldChange {
	old, next := fieldsOf(before), fieldsOf(after)
	changes := []wire.FieldChange{}
	for i := range old {
		if !slices.Equal(old[i].values, next[i].values) {
			changes = append(changes, wire.FieldChange{Field: old[i].name, Before: old[i].values, After: next[i].values})
		}
	}
	return changes
}

// Lines writes what Diff found for people: what goes behind "- ", what comes
// behind "+ ". escape makes a value harmless where the lines are shown.
func Lines(changes []wire.FieldChange, escape func(string) string) []string {
	var lines []string
	line := func(sign, field string, values, but []string) {
		left := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(but, v) })
		if len(left) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", sign, field, escape(strings.Join(left, " "))))
		}
	}
	for _, c := range changes {
		line("-", c.Field, c.Before, c.After)
		line("+", c.Field, c.After, c.Before)
	}
	return lines
}

type field struct {
	name   string
	values []string
}

// fieldsOf returns everything that can be changed about a policy, always the
// same fields, without values where p or its escalation is nil.
func fieldsOf(p *wire.PolicyRequest) []field {
	if p == nil {
		p = &wire.PolicyRequest{}
	}
	one := func(text string) []string {
		if text == "" {
			return []string{}
		}
		return []string{text}
	}
	some := func(values []string) []string { return append([]string{}, values...) }
	fields := []field{
		{"match", some(p.Match)}, {"rules", some(p.Rules)}, {"mode", one(p.Mode)},
		{"on_failure", one(p.OnFailure)}, {"algorithm", one(p.Algorithm)},
	}
	given := map[string]string{}
	for _, text := range p.Options.Texts() {
		name, value, _ := strings.Cut(text, "=")
		given[name] = value
	}
	for _, name := range wire.OptionNames() {
		fields = append(fields, field{"options." + name, one(given[name])})
	}
	var threshold, window, duration, factor, longest, decay string
	if e := p.Escalation; e != nil {
		threshold, window, duration = strconv.Itoa(e.Threshold), e.Window.String(), e.Duration.String()
		factor, longest, decay = strconv.FormatFloat(e.Factor, 'f', -1, 64), e.MaxDuration.String(), e.DecayAfter.String()
	}
	return append(fields,
		field{"escalation.threshold", one(threshold)}, field{"escalation.window", one(window)},
		field{"escalation.duration", one(duration)}, field{"escalation.factor", one(factor)},
		field{"escalation.max_duration", one(longest)}, field{"escalation.decay_after", one(decay)})
}
