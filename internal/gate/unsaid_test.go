package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
)

func TestAttributesCountAsFurtherKeys(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		scraper := func(c *Check) { c.Request = conditions.NewRequest("/a", "GET", "Scraper/1.0", "example.com") }
		for i, k := range []string{"ip:203.0.113.1", "ip:203.0.113.2", "ip:203.0.113.3"} {
			if d := n.check(t, k, scraper); (d.Outcome == Allowed) != (i < 2) {
				t.Errorf("check %d of the agent is %s", i, d.Outcome)
			}
		}
	}, policy(t, 1, "default", "*", "100/m", also(t, "agent 2/h")))
}

// A check has these two values without saying anything of its request.
func TestKeysAndAddressesOfANetworkAreCounted(t *testing.T) {
	for _, name := range []string{"key", "address"} {
		onEveryLog(t, func(t *testing.T, n *node) {
			for i, k := range []string{"ip:203.0.113.1", "ip:203.0.113.1", "ip:203.0.113.2", "ip:203.0.113.3"} {
				if d := n.check(t, k); (d.Outcome == Allowed) != (i < 3) {
					t.Errorf("distinct %s: check %d is %s", name, i, d.Outcome)
				}
			}
			if d := n.check(t, "ip:198.51.100.1"); d.Outcome != Allowed {
				t.Errorf("distinct %s: another network is %s", name, d.Outcome)
			}
		}, policy(t, 1, "default", "*", "100/m", also(t, "net:/24 2/h distinct "+name)))
	}
}

// Rules that can only ever see one value are valid, since policies of earlier versions have them, and
// say that they refuse nobody and what would.
func TestRulesThatSeeOneValueWarn(t *testing.T) {
	for name, c := range map[string]struct {
		policy *rules.Policy
		warns  bool
	}{
		"keys of a key":             {policy(t, 1, "a", "*", "9/h", distinct(t, "9/h distinct key")), true},
		"addresses of an address":   {policy(t, 1, "a", "ip:*", "9/h", distinct(t, "9/h distinct address")), true},
		"addresses of any key":      {policy(t, 1, "a", "*", "9/h", distinct(t, "9/h distinct address")), false},
		"accounts of an address":    {policy(t, 1, "a", "ip:*", "9/h", distinct(t, "9/h distinct account")), false},
		"accounts of an account":    {policy(t, 1, "a", "*", "9/h", also(t, "account 9/h distinct account")), true},
		"accounts of the policy":    {policy(t, 1, "a", "*", "9/h", distinct(t, "9/h distinct account"), also(t, "account")), true},
		"addresses of an account":   {policy(t, 1, "a", "*", "9/h", also(t, "account 9/h distinct address")), false},
		"keys of a network":         {policy(t, 1, "a", "*", "9/h", also(t, "net:/24 9/h distinct key")), false},
		"requests of a further key": {policy(t, 1, "a", "*", "9/h", also(t, "account 9/h")), false},
	} {
		if err := c.policy.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all := append(c.policy.Warnings(), c.policy.AlsoWarnings()...)
		if (len(all) > 0) != c.warns || c.warns && !strings.Contains(all[0].Message, "net:/24") {
			t.Errorf("%s: got %v, want a warning: %v", name, all, c.warns)
		}
	}
}

// Selectors are replaced with every change of policies. What was noticed of the others stays, and a
// request looks at a few values only, whatever number of policies there is.
func TestNoticeGoesOnAfterChangesAndIsBounded(t *testing.T) {
	needy := policy(t, 2, "needy", "ip:*", "9/h", distinct(t, "1/h distinct session"))
	first := rules.NewSelector([]*rules.Policy{needy})
	who := rules.Subject{Key: key(t, "ip:192.0.2.1")}
	for range rules.UnsaidAfter - 1 {
		first.Notice(who, nil, nil, "")
	}
	other := policy(t, 3, "other", "ip:*", "1/h")
	second := rules.NewSelector([]*rules.Policy{needy, other}).Continue(first)
	if second.Notice(who, nil, nil, "") == "" {
		t.Error("the count began again when another policy was added")
	}
	changed := *needy
	changed.Version++
	if third := rules.NewSelector([]*rules.Policy{&changed}).Continue(second); third.UnsaidValues() != 0 {
		t.Error("a changed policy goes on with what was noticed of its earlier version")
	}
	var many []*rules.Policy
	for i := range 100 {
		many = append(many, policy(t, int64(i+1), fmt.Sprint("p", i), "ip:*", "9/h", distinct(t, "1/h distinct session")))
	}
	all := rules.NewSelector(many)
	for range rules.UnsaidAfter {
		all.Notice(who, nil, nil, "")
	}
	if n := all.UnsaidValues(); n != 0 {
		t.Errorf("%d values are reported after requests that look at a few each", n)
	}
	for range 100 * rules.UnsaidAfter / 8 {
		all.Notice(who, nil, nil, "")
	}
	if n := all.UnsaidValues(); n != 100 {
		t.Errorf("%d of 100 values are reported in the end", n)
	}
}

func TestAccountsAreCountedByTheirAddresses(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "addresses", "account:*", "2/h", distinct(t, "2/h distinct address")))
	for i, address := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		said := func(c *Check) {
			c.Request = (*conditions.Request)(nil).WithValues(map[string]string{"address": address})
		}
		if d := n.check(t, "account:alice", said); (d.Outcome == Allowed) != (i < 3) {
			t.Errorf("check %d is %s", i, d.Outcome)
		}
	}
}

// A value that no request says is reported once, for each kind of value that a policy can need.
func TestValueThatNeverComesIsReported(t *testing.T) {
	account := withReportValue("account", "alice")
	for name, c := range map[string]struct {
		policy *rules.Policy
		member string
		say    func(n *node)
	}{
		"a condition": {policy(t, 2, "needy", "ip:*", "9000/m", when(t, "/login", "")), "request.path", func(n *node) { n.check(t, "ip:192.0.2.1", withPath("/")) }},
		"a further key": {policy(t, 2, "needy", "ip:*", "9000/m", also(t, "agent 9000/h")), "request.agent", func(n *node) {
			n.check(t, "ip:192.0.2.1", func(c *Check) { c.Request = conditions.NewRequest("", "", "x", "") })
		}},
		"a distinct value":            {policy(t, 2, "needy", "ip:*", "1/h", distinct(t, "9/h distinct session")), "values.session", nil},
		"a distinct value of reports": {policy(t, 2, "needy", "ip:*", "1/h", counts("login_failed"), distinct(t, "9/h distinct account")), "values.account", func(n *node) { n.report(t, "ip:192.0.2.1", "login_failed", account) }},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, policy(t, 1, "default", "*", "9000/m"), c.policy)
			var warnings []string
			n.unsaid = func(warning string) { warnings = append(warnings, warning) }
			send := func(times int) {
				for range times {
					if c.policy.IsReported() {
						n.report(t, "ip:192.0.2.1", "login_failed")
					}
					n.check(t, "ip:192.0.2.1")
					n.check(t, "token:other") // the policy does not apply to it
				}
			}
			send(rules.UnsaidAfter - 1)
			if len(warnings) > 0 || n.selector.UnsaidValues() != 0 {
				t.Fatalf("reported early: %q", warnings)
			}
			send(100)
			if len(warnings) != 1 || !strings.Contains(warnings[0], "needy") || !strings.Contains(warnings[0], c.member) {
				t.Fatalf("got %q, want one warning that names the policy and %s", warnings, c.member)
			}
			if all := n.selector.Unsaid(2); len(all) != 1 || len(n.selector.Unsaid(1)) != 0 || n.selector.UnsaidValues() != 1 {
				t.Errorf("Unsaid returns %q", all)
			}
			if c.say != nil {
				if c.say(n); len(n.selector.Unsaid(2)) != 0 {
					t.Error("still reported after the value came")
				}
			}
		})
	}
}
