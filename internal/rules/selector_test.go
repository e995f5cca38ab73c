package rules_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func TestSelectorChoosesTheMostSpecificPattern(t *testing.T) {
	policy := func(id int64, name string, mode rules.Mode, match ...string) *rules.Policy {
		return &rules.Policy{ID: id, Name: name, Mode: mode, Match: patterns(t, match...)}
	}
	s := rules.NewSelector([]*rules.Policy{
		policy(1, "default", rules.Enforce, "*"),
		policy(2, "office", rules.Enforce, "ip:10.0.0.0/8", "token:office_*"),
		policy(3, "printer", rules.Off, "ip:10.1.0.0/16"),
		policy(4, "trial", rules.Shadow, "*"),
		policy(5, "trial-office", rules.Shadow, "ip:10.0.0.0/8"),
		policy(6, "late", rules.Enforce, "token:office_*"),
		policy(7, "addresses", rules.Enforce, "ip:*"),
		policy(8, "one", rules.Enforce, "token:office_1"),
	})
	for text, want := range map[string]struct{ enforcing, shadow, by string }{
		"user:x":         {"default", "trial", "*"},
		"ip:10.9.9.9":    {"office", "trial-office", "ip:10.0.0.0/8"},
		"ip:10.1.9.9":    {"printer", "trial-office", "ip:10.1.0.0/16"}, // a policy that is off hides broader patterns
		"ip:192.0.2.1":   {"addresses", "trial", "ip:*"},
		"ip:2001:db8::1": {"addresses", "trial", "ip:*"},
		"token:office_7": {"office", "trial", "token:office_*"}, // the lower id wins
		"token:office_1": {"one", "trial", "token:office_1"},
	} {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		enforcing, shadow := s.Select(rules.Subject{Key: k})
		by, _ := s.Matched(rules.Subject{Key: k})
		if enforcing.Name != want.enforcing || shadow.Name != want.shadow || by.String() != want.by {
			t.Errorf("%s: %s by %s, shadow %s; want %+v", text, enforcing.Name, by, shadow.Name, want)
		}
	}
	if p, found := s.ByName("trial"); !found || p.ID != 4 {
		t.Errorf("ByName(trial) = %v, %v", p, found)
	}
	if p, found := s.ByID(3); !found || p.Name != "printer" {
		t.Errorf("ByID(3) = %v, %v", p, found)
	}
	if n := len(s.Policies()); n != 8 {
		t.Errorf("there are %d policies, want 8", n)
	}
}

func TestSelectorWithoutAMatchSelectsNothing(t *testing.T) {
	k, err := keys.Parser{}.Key("user:x")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*rules.Selector{
		"the zero selector": {},
		"no policies":       rules.NewSelector(nil),
		"only addresses":    rules.NewSelector([]*rules.Policy{{ID: 1, Name: "a", Mode: rules.Enforce, Match: patterns(t, "ip:*")}}),
	} {
		enforcing, shadow := s.Select(rules.Subject{Key: k})
		by, shadowBy := s.Matched(rules.Subject{Key: k})
		if enforcing != nil || shadow != nil || !by.IsZero() || !shadowBy.IsZero() {
			t.Errorf("%s selects %v by %v, %v by %v", name, enforcing, by, shadow, shadowBy)
		}
	}
}

func TestPoliciesWithAnOutcomeAreSelectedInAddition(t *testing.T) {
	policy := func(id int64, name, outcome string, mode rules.Mode, match ...string) *rules.Policy {
		return &rules.Policy{ID: id, Name: name, Outcome: outcome, Mode: mode, Match: patterns(t, match...)}
	}
	s := rules.NewSelector([]*rules.Policy{
		policy(4, "shadow", "not_found", rules.Shadow, "*"), policy(3, "off", "gone", rules.Off, "*"),
		policy(2, "guessing", "login_failed", rules.Enforce, "ip:*"), policy(1, "default", "", rules.Enforce, "*"),
	})
	for text, want := range map[string]string{"ip:203.0.113.7": "guessing shadow", "token:a": "shadow"} {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range s.AppendReported(nil, rules.Subject{Key: k}) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want || len(s.Conditional(rules.Subject{Key: k})) != len(names) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if enforcing, shadow := s.Select(rules.Subject{Key: k}); enforcing.Name != "default" || shadow != nil {
			t.Errorf("%s is selected by %v and %v", text, enforcing, shadow)
		}
	}
	if !s.HasReported() || s.HasConditional() || !s.CountsOutcome("not_found") || s.CountsOutcome("gone") || s.CountsOutcome("other") {
		t.Error("HasReported, HasConditional or CountsOutcome is wrong")
	}
}
