package rules_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

func TestSelectorChoosesByPlan(t *testing.T) {
	policy := func(id int64, name string, mode rules.Mode, match ...string) *rules.Policy {
		return &rules.Policy{ID: id, Name: name, Mode: mode, Match: patterns(t, match...)}
	}
	s := rules.NewSelector([]*rules.Policy{
		policy(1, "default", rules.Enforce, "*"), policy(2, "gold", rules.Enforce, "plan:gold"),
		policy(3, "paying", rules.Enforce, "plan:*"), policy(4, "tokens", rules.Enforce, "token:*"),
		policy(5, "one", rules.Enforce, "token:one", "ip:192.0.2.1", "ip:2001:db8::/64"), policy(6, "trial", rules.Shadow, "plan:gold"),
		policy(7, "late", rules.Enforce, "plan:gold"), policy(8, "office", rules.Enforce, "ip:192.0.2.0/24"),
	})
	for _, c := range []struct{ key, plan, enforcing, by, shadow string }{
		{"token:a", "", "tokens", "token:*", ""},
		{"token:a", "gold", "gold", "plan:gold", "trial"},
		{"token:a", "silver", "paying", "plan:*", ""},
		{"token:one", "gold", "one", "token:one", "trial"},
		{"ip:192.0.2.1", "gold", "one", "ip:192.0.2.1", "trial"},
		{"ip:192.0.2.2", "gold", "gold", "plan:gold", "trial"},
		{"ip:2001:db8::7", "gold", "one", "ip:2001:db8::/64", "trial"},
		{"plan:gold", "", "default", "*", ""}, // a client with such a key does not choose a plan by it
		{"user:x", "*", "paying", "plan:*", ""},
	} {
		k, err := keys.Parser{}.Key(c.key)
		if err != nil {
			t.Fatal(err)
		}
		who := rules.Subject{Key: k, Plan: c.plan}
		enforcing, shadow := s.Select(who)
		by, _ := s.Matched(who)
		shadowName := ""
		if shadow != nil {
			shadowName = shadow.Name
		}
		if enforcing.Name != c.enforcing || by.String() != c.by || shadowName != c.shadow {
			t.Errorf("%s of plan %q: %s by %s, shadow %q; want %s by %s, shadow %q", c.key, c.plan, enforcing.Name, by, shadowName, c.enforcing, c.by, c.shadow)
		}
	}
	if !s.HasPlans() || rules.NewSelector([]*rules.Policy{policy(1, "default", rules.Enforce, "*", "token:plan")}).HasPlans() {
		t.Error("HasPlans is wrong")
	}
	if p := policy(9, "both", rules.Enforce, "token:*", "plan:gold"); p.Matches(rules.Subject{Key: key(t, "user:x")}) || !p.Matches(rules.Subject{Key: key(t, "user:x"), Plan: "gold"}) || p.Matches(rules.Subject{Key: key(t, "plan:gold")}) {
		t.Error("Matches is wrong")
	}
}

func TestPolicyRejectsPatternsOfInvalidPlans(t *testing.T) {
	for pattern, want := range map[string]string{
		"plan:gold": "", "plan:*": "", "plan:go*": "names a part of a plan", "plan:Gold": "names a plan that cannot be", "plan:a b": "names a plan that cannot be",
	} {
		p := &rules.Policy{Name: "p", Match: patterns(t, pattern), Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: "timestamp-log"}
		got := ""
		if err := p.Validate(); err != nil {
			got = err.Error()
		}
		if want == "" && strings.HasPrefix(got, "match") || want != "" && !strings.Contains(got, "match[0] "+want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

var key = keytest.Key

func TestMatchingAllocatesNothing(t *testing.T) {
	p := &rules.Policy{Match: patterns(t, "plan:gold", "user:*", "ip:192.0.2.0/24")}
	who := rules.Subject{Key: keytest.Key(t, "ip:192.0.2.7"), Plan: "silver"}
	if n := testing.AllocsPerRun(100, func() { p.Matches(who) }); n != 0 {
		t.Errorf("a policy is compared with a key by %v allocations", n)
	}
}
