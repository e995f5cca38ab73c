package admin

import (
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// A policy that gets a condition no longer decides about all its keys, which then fall under
// the next policy.
func TestConditionNeedsConfirmationIfTheNextPolicyRefusesAll(t *testing.T) {
	policy := func(name, match, rule string) *rules.Policy {
		p, err := keys.Parser{}.Pattern(match)
		if err != nil {
			t.Fatal(err)
		}
		stack, err := rules.ParseStack([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		return &rules.Policy{Name: name, Match: []keys.Pattern{p}, Rules: stack, Mode: rules.Enforce}
	}
	all, partners := policy("default", "*", "0/1s"), policy("partners", "token:partner-*", "1000/1m")
	after := *partners
	if reason := broadPolicyReason([]*rules.Policy{all, &after}, partners, &after); reason != "" {
		t.Errorf("without a change the reason is %q, want none", reason)
	}
	var err error
	if after.When, err = conditions.Parse([4][]string{{"/api/*"}}); err != nil {
		t.Fatal(err)
	}
	if reason := broadPolicyReason([]*rules.Policy{all, &after}, partners, &after); reason == "" {
		t.Error("a condition that leaves keys to a policy that refuses all needs no confirmation, want a reason")
	}
}
