package api

import (
	"errors"

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
		PolicyRequest: p.Document(), Version: p.Version, ETag: string(rules.TagOf(p)),
		CreatedAt: wire.At(p.Created), UpdatedAt: wire.At(p.Updated), UpdatedBy: p.UpdatedBy, Warnings: widenedWarnings(p.Match...),
	}
	for _, w := range append(p.Warnings(), p.AlsoWarnings()...) {
		out.Warnings = append(out.Warnings, w.Message)
	}
	return out
}

// policyOf returns the policy that r describes, with the given name. The error is a
// *fault.Error that names the field.
func policyOf(r *wire.PolicyRequest, parser keys.Parser, name string) (*rules.Policy, error) {
	if r.Name != "" && r.Name != name {
		return nil, fault.Field("name", "must be as in the path, %q, or be omitted", name)
	}
	named := *r
	named.Name = name
	p, err := rules.FromDocument(&named, keys.Reading{Parser: parser, AnyKind: true}.Pattern)
	return p, policyFault(err)
}

// policyFault returns the fault of an error of a policy's document.
func policyFault(err error) error {
	var text *rules.TextError
	var condition *conditions.Error
	var value *rules.FieldError
	switch {
	case errors.As(err, &text):
		return fault.OfField(text.Field, text.Err)
	case errors.As(err, &condition):
		return fault.Field(condition.Field, "%s", condition.Problem)
	case errors.As(err, &value):
		return fault.Field(value.Field, "%s", value.Problem)
	}
	return err
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
