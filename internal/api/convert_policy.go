package api

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// fromAlgorithm returns an algorithm as the API shows it.
func fromAlgorithm(a *algorithms.Algorithm) wire.Algorithm {
	return wire.Algorithm{Name: a.Name, Title: a.Title, Summary: a.Summary, Exact: a.Exact, Options: append([]string{}, a.Options...)}
}

// fromOptions returns options as the API shows them.
func fromOptions(o algorithms.Options) wire.PolicyOptions { return wire.PolicyOptions(o.Canonical()) }

// fromPolicy returns a policy as the API shows it.
func fromPolicy(p *rules.Policy) wire.Policy {
	out := wire.Policy{
		Name: p.Name, Match: make([]string, len(p.Match)), When: fromWhen(p.When), Outcome: p.Outcome, Scope: p.Scope, Rules: p.Rules.Strings(), Also: p.Also.Strings(), Mode: string(p.Mode),
		OnFailure: string(p.OnFailure), Algorithm: p.Algorithm, Options: fromOptions(p.Options), Version: p.Version, ETag: string(rules.TagOf(p)),
		CreatedAt: wire.At(p.Created), UpdatedAt: wire.At(p.Updated), UpdatedBy: p.UpdatedBy, Warnings: widenedWarnings(p.Match...),
	}
	for i, m := range p.Match {
		out.Match[i] = m.String()
	}
	if e := p.Escalation; e != nil {
		out.Escalation = &wire.Escalation{
			Threshold: e.Threshold, Window: wire.Duration(e.Window), Duration: wire.Duration(e.Duration),
			Factor: e.Factor, MaxDuration: wire.Duration(e.MaxDuration), DecayAfter: wire.Duration(e.DecayAfter),
		}
	}
	for _, w := range append(p.Warnings(), p.AlsoWarnings()...) {
		out.Warnings = append(out.Warnings, w.Message)
	}
	return out
}

// fromWhen returns conditions as the API shows them.
func fromWhen(w conditions.When) wire.PolicyWhen {
	return wire.WhenOf([...][]string{w.Texts(conditions.Path), w.Texts(conditions.Method), w.Texts(conditions.Agent), w.Texts(conditions.Host)})
}

// whenOf converts the conditions of a request. The error is a *fault.Error.
func whenOf(w wire.PolicyWhen) (conditions.When, error) {
	when, err := conditions.Parse(w.Lists())
	var wrong *conditions.Error
	if errors.As(err, &wrong) {
		return when, fault.Field(wrong.Field, "%s", wrong.Problem)
	}
	return when, err
}

// policyOf returns the policy that r describes, with the given name. The error is a
// *fault.Error that names the field.
func policyOf(r *wire.PolicyRequest, parser keys.Parser, name string) (*rules.Policy, error) {
	if r.Name != "" && r.Name != name {
		return nil, fault.Field("name", "must be as in the path, %q, or be omitted", name)
	}
	if r.Rules == nil {
		return nil, fault.Field("rules", "is missing; send for example [\"20/1m\"], or [] to allow everything")
	}
	p := &rules.Policy{
		Name: name, Outcome: r.Outcome, Scope: r.Scope, Mode: rules.Mode(or(r.Mode, string(rules.Enforce))),
		OnFailure: rules.OnFailure(or(r.OnFailure, string(rules.FailLocal))), Algorithm: r.Algorithm,
		Options: algorithms.Options(r.Options),
	}
	for i, text := range r.Match {
		pattern, err := fault.ReadPattern(keys.Reading{Parser: parser, AnyKind: true}, fmt.Sprintf("match[%d]", i), text)
		if err != nil {
			return nil, err
		}
		p.Match = append(p.Match, pattern)
	}
	stack, err := stackOf(r)
	if err != nil {
		return nil, err
	}
	p.Rules, p.Algorithm = stack, or(r.Algorithm, rules.AlgorithmFor(stack))
	if p.When, err = whenOf(r.When); err != nil {
		return nil, err
	}
	for i, text := range r.Also {
		derived, err := rules.ParseDerived(text)
		if err != nil {
			return nil, fault.Field(fmt.Sprintf("also[%d]", i), "%s", err.Error())
		}
		p.Also = append(p.Also, derived)
	}
	if e := r.Escalation; e != nil {
		p.Escalation = &rules.Escalation{
			Threshold: e.Threshold, Window: e.Window.Std(), Duration: e.Duration.Std(),
			Factor: e.Factor, MaxDuration: e.MaxDuration.Std(), DecayAfter: e.DecayAfter.Std(),
		}
	}
	err = validate(p)
	p.Options = p.Options.Canonical()
	return p, err
}

// stackOf parses each rule separately, so that an error names the invalid rule.
func stackOf(r *wire.PolicyRequest) (rules.Stack, error) {
	for i, text := range r.Rules {
		if _, err := rules.ParseRule(text); err != nil {
			return nil, fault.Field(fmt.Sprintf("rules[%d]", i), "%s", err.Error())
		}
	}
	stack, err := rules.ParseStack(r.Rules)
	if err != nil {
		return nil, fault.Field("rules", "%s", err.Error())
	}
	return stack, nil
}

func validate(p *rules.Policy) error {
	err := p.Validate()
	var field *rules.FieldError
	if errors.As(err, &field) {
		return fault.Field(field.Field, "%s", field.Problem)
	}
	return err
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// widenedWarnings returns a warning for each pattern that was written as a bare IPv6 address
// and therefore covers a network. Without warnings it returns the empty list, not nil.
func widenedWarnings(patterns ...keys.Pattern) []string {
	warnings := []string{}
	for _, p := range patterns {
		if p.Widened() {
			warnings = append(warnings, "A bare IPv6 address means the network that its client is counted by: this means "+
				p.String()+". Write /128 behind the address for it alone.")
		}
	}
	return warnings
}
