// Package backtest tries rules on recorded requests: it replays them through
// the policy code and the in-memory log that the service uses, on the
// recording's own clock, and reports who would have been refused and by which
// rule.
package backtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// Plan is what limits the keys of a backtest: one stack for all of them, or
// policies that select theirs. The zero value allows everything.
type Plan struct {
	title    string
	policies []*rules.Policy
	selector *rules.Selector
}

// StackPlan limits every key by stack.
func StackPlan(stack rules.Stack) Plan {
	everyKey, _ := keys.Parser{}.Pattern("*") // "*" is a pattern
	return newPlan(stack.String(), []*rules.Policy{{
		Match: []keys.Pattern{everyKey}, Rules: stack, Mode: rules.Enforce, Algorithm: rules.AlgorithmFor(stack, nil),
	}})
}

// PoliciesPlan limits each key by the policy that would enforce its limits in
// the service. A policy in shadow mode decides nothing; to try one, pass it in
// the mode enforce.
func PoliciesPlan(policies []*rules.Policy) Plan {
	title := ""
	for i, p := range policies {
		if i > 0 {
			title += ", "
		}
		title += p.Name
	}
	return newPlan(title, policies)
}

// Under returns the plan with every policy counting by an algorithm, under those
// options; those that cannot be counted by it keep their own, as in the service.
// The error comes from algorithms.Algorithm.Check.
func (p Plan) Under(a *algorithms.Algorithm, o algorithms.Options) (Plan, error) {
	if err := a.Check(o); err != nil {
		return Plan{}, err
	}
	policies := make([]*rules.Policy, len(p.policies))
	for i, policy := range p.policies {
		if policies[i] = policy; !policy.CanCountBy(a) {
			continue
		}
		changed := *policy
		changed.Algorithm, changed.Options = a.Name, o.Canonical()
		policies[i] = &changed
	}
	return newPlan(p.title, policies), nil
}

// Warnings returns what is probably not meant in the policies of both plans, as
// each counts, and each but once.
func (o Options) Warnings() []string {
	policies := o.Plan.policies
	if o.Against != nil {
		policies = slices.Concat(policies, o.Against.policies)
	}
	var texts []string
	for _, p := range policies {
		for _, w := range p.Warnings() {
			if !slices.Contains(texts, w.Message) {
				texts = append(texts, w.Message)
			}
		}
		if p.InAttack {
			texts = append(texts, fmt.Sprintf("policy %q applies only while an attack goes on; here it does all the time, so that it refuses more than it would", p.Name))
		}
	}
	return texts
}

// Unseen is Plan.Unseen for both plans, each text once.
func (o Options) Unseen(c accesslog.Columns) []string {
	texts := o.Plan.Unseen("the log", c)
	if o.Against != nil {
		for _, text := range o.Against.Unseen("the log", c) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// Titled returns the plan under another title.
func (p Plan) Titled(title string) Plan {
	p.title = title
	return p
}

// newPlan numbers copies of the policies, because those that were never stored
// have no id and would share their logs.
func newPlan(title string, policies []*rules.Policy) Plan {
	plan := Plan{title: title}
	for i, p := range policies {
		numbered := *p
		numbered.ID = int64(i + 1)
		plan.policies = append(plan.policies, &numbered)
	}
	plan.selector = rules.NewSelector(plan.policies).During(true)
	return plan
}

// String returns the title: by default the rules of a StackPlan or the names of
// the policies.
func (p Plan) String() string { return p.title }

// Unseen says in lines that are safe to print which policies look at what a log, or other requests, with
// these columns does not have, and so never count or never see a request of it.
func (p Plan) Unseen(what string, c accesslog.Columns) []string {
	var texts []string
	for _, policy := range p.policies {
		var missing []string
		need := func(name string, has bool) {
			if !has && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		for _, name := range policy.Asks() {
			a, err := conditions.ParseAttribute(name)
			switch source, _ := a.Source(); {
			case err != nil:
				need(name, c.Has(name))
			case source == "query":
				need("path", c.Has("path"))
			case a == conditions.Bot || a == conditions.Category:
				need("agent", c.Has("agent"))
			case a == conditions.Country || a == conditions.ASN:
				need(a.Words()+" of addresses", keys.KnowsOrigins())
			case source != "" || a == conditions.Scheme || a == conditions.JA4 || a == conditions.Verified:
				need(a.Words(), false)
			default:
				need(name, c.Has(name))
			}
		}
		if policy.Outcome != "" {
			need("status", c.Has("status"))
		}
		if slices.ContainsFunc(policy.Match, func(m keys.Pattern) bool { return bots.IsPattern(m.String()) }) {
			need("key of a bot", false)
		}
		switch lacks := strings.Join(missing, ", no "); {
		case lacks == "":
		case policy.HasEvidence():
			texts = append(texts, fmt.Sprintf("policy %q has nothing to look at for some of its evidence: %s has no %s", policy.Name, what, lacks))
		default:
			texts = append(texts, fmt.Sprintf("policy %q has nothing to look at: %s has no %s", policy.Name, what, lacks))
		}
	}
	return texts
}
