package rules

import (
	"slices"
	"strconv"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
)

// FieldChange is one field in which two policies differ, under its name in the API. Match and
// rules have several values, in no significant order. A field that is not set has none.
type FieldChange struct {
	Field         string
	Before, After []string
}

// Diff returns the fields in which two policies differ, always in the same order. nil means that
// there is no policy.
func Diff(before, after *Policy) []FieldChange {
	changes := []FieldChange{}
	old, next := before.fields(), after.fields()
	for i := range old {
		if !slices.Equal(old[i].After, next[i].After) {
			changes = append(changes, FieldChange{old[i].Field, old[i].After, next[i].After})
		}
	}
	return changes
}

// fields returns all fields of a policy that can be changed, with their values in After. It
// always returns the same fields; they have no values if p, or its escalation, is nil.
func (p *Policy) fields() []FieldChange {
	if p == nil {
		p = &Policy{}
	}
	match := make([]string, len(p.Match))
	for i, m := range p.Match {
		match[i] = m.String()
	}
	slices.Sort(match)
	refused := ""
	if p.Options.CountRefused {
		refused = "true"
	}
	burst := ""
	if p.Options.Burst != 0 {
		burst = strconv.Itoa(p.Options.Burst)
	}
	o := p.Options.Canonical()
	fields := []FieldChange{{Field: "match", After: match}}
	for _, a := range conditions.Attributes() {
		fields = append(fields, FieldChange{Field: "when." + a.String(), After: p.When.Texts(a)})
	}
	for _, source := range conditions.Sources() {
		fields = append(fields, FieldChange{Field: "when." + source, After: p.When.NamedTexts(source)})
	}
	attack := ""
	if p.InAttack {
		attack = attackOn
	}
	fields = append(fields, []FieldChange{
		one("when."+attackCondition, attack), one("outcome", p.Outcome), one("scope", p.Scope), {Field: "rules", After: p.Rules.Strings()}, {Field: "evidence", After: append([]string{}, p.Evidence.Strings()...)}, {Field: "also", After: append([]string{}, p.Also.Strings()...)},
		one("mode", string(p.Mode)), one("on_limit", string(p.OnLimit)), one("on_failure", string(p.OnFailure)), one("algorithm", p.Algorithm),
		one("options."+algorithms.OptionBurst, burst), one("options."+algorithms.OptionCountRefused, refused),
		one("options."+algorithms.OptionWindowStart, o.WindowStart), one("options."+algorithms.OptionVariant, o.Variant),
	}...)
	cost, hold := "", ""
	if p.Cost != 0 {
		cost = strconv.Itoa(p.Cost)
	}
	if p.Hold != 0 {
		hold = FormatDuration(p.Hold)
	}
	fields = append(fields, one("unit", p.Rules.Unit()), one("time_zone", p.Zone()), one("cost", cost), one("hold", hold), one("on_expiry", string(p.OnExpiry)))
	var threshold, window, duration, factor, longest, decay, challenges string
	if e := p.Escalation; e != nil {
		threshold, window, duration = strconv.Itoa(e.Threshold), FormatDuration(e.Window), FormatDuration(e.Duration)
		factor, longest, decay = strconv.FormatFloat(e.Factor, 'f', -1, 64), FormatDuration(e.MaxDuration), FormatDuration(e.DecayAfter)
		if e.ChallengeLevels > 0 {
			challenges = strconv.Itoa(e.ChallengeLevels)
		}
	}
	return append(fields,
		one("escalation.threshold", threshold), one("escalation.window", window), one("escalation.duration", duration),
		one("escalation.factor", factor), one("escalation.max_duration", longest), one("escalation.decay_after", decay), one("escalation.challenge_levels", challenges))
}

// one returns a field with one value, or none if text is "".
func one(field, text string) FieldChange {
	f := FieldChange{Field: field, After: []string{}}
	if text != "" {
		f.After = append(f.After, text)
	}
	return f
}
