package policyfile

import (
	"errors"
	"slices"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Canonical returns p with its patterns and rules in canonical spelling and
// order and its defaults filled in, so that equal policies are deeply equal.
// The error names the field that is wrong.
func Canonical(p wire.PolicyRequest) (wire.PolicyRequest, error) {
	policy, err := Policy(p)
	if err != nil {
		return p, err
	}
	p = policy.Document()
	slices.Sort(p.Match)
	return p, nil
}

// Policy returns what p describes, checked as the server would.
func Policy(p wire.PolicyRequest) (*rules.Policy, error) {
	return rules.FromDocument(&p, func(text string) (keys.Pattern, error) {
		pattern, err := keys.Reading{AnyKind: true}.Pattern(text)
		if err == nil && pattern.Widened() {
			err = errBareIPv6
		}
		return pattern, err
	})
}

// errBareIPv6 keeps files independent of the server that they are applied to.
var errBareIPv6 = errors.New("a bare IPv6 address means a network whose length is a setting of the server; write the length out, for example ip:2001:db8::/64 or ip:2001:db8::7/128")
