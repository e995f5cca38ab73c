package policyfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// request returns what p asks the API for, in canonical form.
func (p policy) request() (wire.PolicyRequest, error) {
	request := wire.PolicyRequest{
		Name: p.Name, Match: p.Match, When: wire.PolicyWhen(p.When), Outcome: p.Outcome, Scope: p.Scope, Rules: p.Rules, Also: p.Also,
		Mode: p.Mode, OnFailure: p.OnFailure, Algorithm: p.Algorithm, Options: wire.PolicyOptions(p.Options),
	}
	if e := p.Escalation; e != nil {
		request.Escalation = &wire.Escalation{Threshold: e.Threshold, Factor: e.Factor}
		for _, part := range []struct {
			field string
			text  string
			into  *wire.Duration
		}{
			{"window", e.Window, &request.Escalation.Window},
			{"duration", e.Duration, &request.Escalation.Duration},
			{"max_duration", e.MaxDuration, &request.Escalation.MaxDuration},
			{"decay_after", e.DecayAfter, &request.Escalation.DecayAfter},
		} {
			if err := part.into.UnmarshalText([]byte(part.text)); err != nil {
				return request, fmt.Errorf("escalation.%s %w", part.field, err)
			}
		}
	}
	canonical, err := Canonical(request)
	if err == nil && p.Rules == nil {
		err = errors.New("rules is missing; write [] for a policy that allows everything")
	}
	return canonical, err
}

// Canonical returns p with its patterns and rules in canonical spelling and
// order and its defaults filled in, so that equal policies are deeply equal.
// The error names the field that is wrong.
func Canonical(p wire.PolicyRequest) (wire.PolicyRequest, error) {
	policy, err := Policy(p)
	if err != nil {
		return p, err
	}
	p.Match = nil
	for _, m := range policy.Match {
		p.Match = append(p.Match, m.String())
	}
	slices.Sort(p.Match)
	p.When = wire.WhenOf([...][]string{
		policy.When.Texts(conditions.Path), policy.When.Texts(conditions.Method),
		policy.When.Texts(conditions.Agent), policy.When.Texts(conditions.Host),
	})
	p.Rules, p.Also = policy.Rules.Strings(), policy.Also.Strings()
	p.Mode, p.OnFailure = string(policy.Mode), string(policy.OnFailure)
	p.Algorithm, p.Options = policy.Algorithm, wire.PolicyOptions(policy.Options)
	return p, nil
}

// Policy returns what p describes, checked as the server would.
func Policy(p wire.PolicyRequest) (*rules.Policy, error) {
	policy := &rules.Policy{
		Name:      p.Name,
		Outcome:   p.Outcome,
		Scope:     p.Scope,
		Mode:      rules.Mode(orElse(p.Mode, string(rules.Enforce))),
		OnFailure: rules.OnFailure(orElse(p.OnFailure, string(rules.FailLocal))),
		Options:   algorithms.Options(p.Options),
	}
	for i, text := range p.Match {
		pattern, err := keys.Reading{AnyKind: true}.Pattern(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("match[%d]: %w", i, err)
		case pattern.Widened():
			return nil, fmt.Errorf("match[%d]: %w", i, errBareIPv6)
		}
		policy.Match = append(policy.Match, pattern)
	}
	var err error
	if policy.When, err = conditions.Parse(p.When.Lists()); err != nil {
		return nil, err
	}
	for i, text := range p.Rules {
		if _, err := rules.ParseRule(text); err != nil {
			return nil, fmt.Errorf("rules[%d]: %w", i, err)
		}
	}
	stack, err := rules.ParseStack(p.Rules)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	policy.Rules, policy.Algorithm = stack, orElse(p.Algorithm, rules.AlgorithmFor(stack))
	if policy.Also, err = rules.ParseAlso(p.Also); err != nil {
		return nil, fmt.Errorf("also: %w", err)
	}
	if e := p.Escalation; e != nil {
		policy.Escalation = &rules.Escalation{
			Threshold: e.Threshold, Window: e.Window.Std(), Duration: e.Duration.Std(),
			Factor: e.Factor, MaxDuration: e.MaxDuration.Std(), DecayAfter: e.DecayAfter.Std(),
		}
	}
	err = policy.Validate()
	policy.Options = policy.Options.Canonical()
	return policy, err
}

// errBareIPv6 keeps files independent of the server that they are applied to.
var errBareIPv6 = errors.New("a bare IPv6 address means a network whose length is a setting of the server; write the length out, for example ip:2001:db8::/64 or ip:2001:db8::7/128")

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
