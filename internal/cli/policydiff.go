package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/output"
)

// policyField is one property of a policy as people read it.
type policyField struct {
	name   string
	values []string // several where the order does not matter
}

// policyFields returns what can be changed about a policy, none for nil.
func policyFields(p *v1.PolicyRequest) []policyField {
	if p == nil {
		return nil
	}
	fields := []policyField{
		{"match", p.Match},
		{"rules", p.Rules},
		{"mode", []string{p.Mode}},
		{"on_failure", []string{p.OnFailure}},
		{"algorithm", []string{p.Algorithm}},
	}
	if e := p.Escalation; e != nil {
		fields = append(fields,
			policyField{"escalation.offences", []string{strconv.Itoa(e.Offences)}},
			policyField{"escalation.within", []string{e.Within.String()}},
			policyField{"escalation.block", []string{e.Block.String()}},
			policyField{"escalation.factor", []string{strconv.FormatFloat(e.Factor, 'f', -1, 64)}},
			policyField{"escalation.cap", []string{e.Cap.String()}},
			policyField{"escalation.forget_after", []string{e.ForgetAfter.String()}},
		)
	}
	return fields
}

// fieldNames are the fields in the order in which a difference shows them.
var fieldNames = []string{
	"match", "rules", "mode", "on_failure", "algorithm",
	"escalation.offences", "escalation.within", "escalation.block",
	"escalation.factor", "escalation.cap", "escalation.forget_after",
}

// diffPolicies returns the lines that lead from one policy to another, nil
// standing for no policy: "- " before what goes, "+ " before what comes.
func diffPolicies(before, after *v1.PolicyRequest) []string {
	old, next := policyFields(before), policyFields(after)
	var lines []string
	for _, name := range fieldNames {
		was, is := valuesOf(old, name), valuesOf(next, name)
		gone := keep(was, func(v string) bool { return !slices.Contains(is, v) })
		come := keep(is, func(v string) bool { return !slices.Contains(was, v) })
		lines = append(lines, diffLine("-", name, gone)...)
		lines = append(lines, diffLine("+", name, come)...)
	}
	return lines
}

func diffLine(sign, name string, values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s %s: %s", sign, name, output.Escape(strings.Join(values, " ")))}
}

func valuesOf(fields []policyField, name string) []string {
	for _, f := range fields {
		if f.name == name {
			return f.values
		}
	}
	return nil
}
