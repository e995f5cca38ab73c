package policyfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// Plan returns what makes the policies that stand what is wanted, which must be
// canonical: a change for each policy, by name, the deletions last. Policies
// that are not wanted stay unless prune says so.
func Plan(standing []v1.Policy, wanted []v1.PolicyRequest, prune bool) ([]v1.PolicyChange, error) {
	known := map[string]v1.PolicyChange{}
	var deletions []v1.PolicyChange
	for _, p := range standing {
		before, err := Canonical(p.Request())
		if err != nil {
			return nil, err
		}
		c := v1.PolicyChange{Name: p.Name, Action: v1.PolicyDelete, Version: &p.Version, Before: &before, Fields: Diff(&before, nil)}
		known[p.Name] = c
		if prune && !slices.ContainsFunc(wanted, func(w v1.PolicyRequest) bool { return w.Name == p.Name }) {
			deletions = append(deletions, c)
		}
	}
	changes := make([]v1.PolicyChange, 0, len(wanted)+len(deletions))
	for i := range wanted {
		c, stands := known[wanted[i].Name]
		c.Name, c.After, c.Action = wanted[i].Name, &wanted[i], v1.PolicyReplace
		c.Fields = Diff(c.Before, c.After)
		switch {
		case !stands:
			c.Action = v1.PolicyCreate
		case len(c.Fields) == 0:
			c.Action = v1.PolicyKeep
		}
		changes = append(changes, c)
	}
	byName := func(a, b v1.PolicyChange) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(changes, byName)
	slices.SortFunc(deletions, byName)
	return append(changes, deletions...), nil
}

// Diff returns the fields in which two canonical policies differ, nil standing
// for no policy.
func Diff(before, after *v1.PolicyRequest) []v1.FieldChange {
	old, next := fieldsOf(before), fieldsOf(after)
	changes := []v1.FieldChange{}
	for i := range old {
		if !slices.Equal(old[i].values, next[i].values) {
			changes = append(changes, v1.FieldChange{Field: old[i].name, Before: old[i].values, After: next[i].values})
		}
	}
	return changes
}

// Lines writes what Diff found for people: what goes behind "- ", what comes
// behind "+ ". escape makes a value harmless where the lines are shown.
func Lines(changes []v1.FieldChange, escape func(string) string) []string {
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
func fieldsOf(p *v1.PolicyRequest) []field {
	if p == nil {
		p = &v1.PolicyRequest{}
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
	for _, name := range v1.OptionNames() {
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
