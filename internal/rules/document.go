package rules

import (
	"fmt"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// TextError says which field of a document has a text that cannot be read, and why.
type TextError struct {
	Field string // as in the API, for example "rules[1]"
	Err   error
}

// Error returns one line that is safe to print.
func (e *TextError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the error without its field.
func (e *TextError) Unwrap() error { return e.Err }

// ReadDocument returns the policy of a document, with its defaults filled in. pattern reads its
// patterns: keys.Reading's method what people wrote, and keys.Parser's what is stored, which is
// canonical and does not depend on settings. It does not validate: what is stored was valid when it
// was made. The error is a *TextError, a *conditions.Error or, of evidence, a
// *FieldError.
func ReadDocument(d *wire.PolicyRequest, pattern func(string) (keys.Pattern, error)) (*Policy, error) {
	p := &Policy{
		Name: d.Name, Outcome: d.Outcome, Scope: d.Scope,
		Mode: orElse(Mode(d.Mode), Enforce), OnFailure: orElse(OnFailure(d.OnFailure), FailLocal),
		OnLimit: OnLimit(d.OnLimit),
		Options: algorithms.Options(d.Options),
	}
	if d.OnLimit == "limit" {
		p.OnLimit = LimitOnLimit
	}
	for i, text := range d.Match {
		m, err := pattern(text)
		if err != nil {
			return nil, &TextError{fmt.Sprintf("match[%d]", i), err}
		}
		p.Match = append(p.Match, m)
	}
	for i, text := range d.Rules {
		if _, err := ParseRule(text); err != nil {
			return nil, &TextError{fmt.Sprintf("rules[%d]", i), err}
		}
	}
	var err error
	if p.Rules, err = ParseStack(d.Rules); err != nil {
		return nil, &TextError{"rules", err}
	}
	if err := CheckUnit(d.Unit); err != nil {
		return nil, &TextError{"unit", err}
	}
	if p.Rules, err = p.Rules.withUnit(d.Unit); err != nil {
		return nil, &TextError{"rules", err}
	}
	if err := p.ReadWhen(d.When); err != nil {
		return nil, err
	}
	if p.Evidence, err = ParseEvidence(d.Evidence); err != nil {
		return nil, err
	}
	for i, text := range d.Also {
		derived, err := ParseDerived(text)
		if err != nil {
			return nil, &TextError{fmt.Sprintf("also[%d]", i), err}
		}
		if derived.Rules, err = derived.Rules.withUnit(p.Rules.Unit()); err != nil {
			return nil, &TextError{fmt.Sprintf("also[%d]", i), err}
		}
		p.Also = append(p.Also, derived)
	}
	if err := p.SetZone(d.TimeZone); err != nil {
		return nil, err
	}
	p.Algorithm = orElse(d.Algorithm, AlgorithmFor(p.Rules, p.Also))
	p.Cost, p.Hold, p.OnExpiry = d.Cost, d.Hold.Std(), OnExpiry(d.OnExpiry)
	if e := d.Escalation; e != nil {
		p.Escalation = &Escalation{
			Threshold: e.Threshold, Window: e.Window.Std(), Duration: e.Duration.Std(),
			Factor: e.Factor, MaxDuration: e.MaxDuration.Std(), DecayAfter: e.DecayAfter.Std(), ChallengeLevels: e.ChallengeLevels,
		}
	} else if p.OnLimit == BlockOnLimit {
		p.Escalation = BlockAtOnce()
	}
	return p, nil
}

// FromDocument is ReadDocument for a new policy, which it validates: its error may also be a
// *FieldError.
func FromDocument(d *wire.PolicyRequest, pattern func(string) (keys.Pattern, error)) (*Policy, error) {
	p, err := ReadDocument(d, pattern)
	if err == nil {
		err = p.Validate()
	}
	if err == nil && d.Rules == nil {
		err = &FieldError{"rules", "is missing; write [] for a policy that allows everything, otherwise its rules, for example [\"20/1m\"]"}
	}
	if err != nil {
		return nil, err
	}
	p.Options = p.Options.Canonical()
	return p, nil
}

func orElse[T ~string](text, otherwise T) T {
	if text == "" {
		return otherwise
	}
	return text
}

// Document returns the canonical document of p: equal policies have equal documents.
func (p *Policy) Document() wire.PolicyRequest {
	d := wire.PolicyRequest{
		Name: p.Name, Match: make([]string, len(p.Match)), When: p.WhenDocument(), Outcome: p.Outcome, Scope: p.Scope,
		Rules: p.Rules.Strings(), Evidence: p.Evidence.Strings(), Also: p.Also.Strings(), Mode: string(p.Mode), OnFailure: string(p.OnFailure), OnLimit: string(p.OnLimit),
		Algorithm: p.Algorithm, Options: wire.PolicyOptions(p.Options.Canonical()),
		Unit: p.Rules.Unit(), TimeZone: p.Zone(), Cost: p.Cost, Hold: wire.Duration(p.Hold), OnExpiry: string(p.OnExpiry),
	}
	for i, m := range p.Match {
		d.Match[i] = m.String()
	}
	if e := p.Escalation; e != nil {
		d.Escalation = &wire.Escalation{
			Threshold: e.Threshold, Window: wire.Duration(e.Window), Duration: wire.Duration(e.Duration),
			Factor: e.Factor, MaxDuration: wire.Duration(e.MaxDuration), DecayAfter: wire.Duration(e.DecayAfter), ChallengeLevels: e.ChallengeLevels,
		}
	}
	return d
}
