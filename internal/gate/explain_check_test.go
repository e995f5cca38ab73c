package gate

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// wantExplained fails the test unless the explanation of a key agrees with the answer to a peek,
// and returns the explanation.
func (n *node) wantExplained(t testing.TB, text string, d *Decision) *Explanation {
	t.Helper()
	x, err := n.Explain(t.Context(), key(t, text), "")
	if err != nil {
		t.Fatal(err)
	}
	isSame := x.Outcome == d.Outcome
	switch d.Outcome {
	case Limited:
		isSame = isSame && x.Never == d.Never && x.NextAllowed.Equal(d.RetryAt)
	case Blocked: // a rule may refuse for longer
		isSame = isSame && x.Block == d.Block && (x.Never || !d.Never && !x.NextAllowed.Before(d.RetryAt))
	}
	if !isSame {
		t.Fatalf("%s: the explanation is %s until %s, a check is %s until %s", text, x.Outcome, x.NextAllowed, d.Outcome, d.RetryAt)
	}
	if x.Limiting == nil {
		if d.Outcome == Limited {
			t.Fatalf("%s: the explanation names no policy, a check is limited by %s", text, d.Policy.Name)
		}
		return x
	}
	rule, _ := d.DecidingRule()
	explained, _ := x.Limiting.DecidingRule()
	if d.Outcome != Limited || x.Limiting.Policy.Name != d.Policy.Name || explained != rule || (x.Limiting.Derived == nil) != (d.Derived == nil) || d.Derived != nil && *x.Limiting.Derived != *d.Derived {
		t.Fatalf("%s: the explanation names %s of %s for %v, a check is %s by %s of %v for %v", text, explained, x.Limiting.Policy.Name, x.Limiting.Derived, d.Outcome, rule, d.Policy, d.Derived)
	}
	return x
}

// TestExplanationAgreesWithTheCheck compares both for keys under random policies (traps, scopes,
// outcomes, further keys, plans), entries and limits of their own. Remaining must be the number
// of checks that are then allowed.
func TestExplanationAgreesWithTheCheck(t *testing.T) {
	scoped := func(p *rules.Policy) { p.Scope = "login" }
	reports := counts("login_failed")
	menu := []func() *rules.Policy{
		func() *rules.Policy { return policy(t, 1, "default", "*", "4/s 9/m", also(t, "net:/24 6/m")) },
		func() *rules.Policy { return policy(t, 2, "trap", "ip:*", "0/s", when(t, "/.env", "")) },
		func() *rules.Policy { return policy(t, 3, "search", "ip:*", "1/h", when(t, "/search", "")) },
		func() *rules.Policy { return policy(t, 4, "guessing", "ip:*", "2/h", reports, also(t, "net:/24 3/h")) },
		func() *rules.Policy { return policy(t, 5, "slow-guessing", "ip:*", "3/d", reports) },
		func() *rules.Policy { return policy(t, 6, "login", "ip:*", "1/d", reports, scoped, also(t, "net:/24")) },
		func() *rules.Policy { return policy(t, 7, "watched", "ip:*", "1/d", reports, mode(rules.Shadow)) },
		func() *rules.Policy { return policy(t, 8, "never", "ip:192.0.2.9", "0/s", reports) },
		func() *rules.Policy {
			return policy(t, 11, "queue", "ip:192.0.2.0/24", "20/m", by(algorithms.LeakyBucket, algorithms.Options{Variant: algorithms.VariantQueue}))
		},
		func() *rules.Policy { return policy(t, 9, "tried", "ip:*", "1/h", mode(rules.Shadow)) },
		func() *rules.Policy {
			return policy(t, 10, "scan", "ip:*", "1/h", reports, func(p *rules.Policy) { p.Rules[0].Distinct = "path" })
		},
		func() *rules.Policy { return policy(t, 12, "gold", "plan:gold", "3/m", also(t, "net:/24 4/m")) },
		func() *rules.Policy { return policy(t, 13, "gold-guessing", "plan:gold", "1/h", reports) },
		func() *rules.Policy {
			return policy(t, 14, "off", "ip:192.0.2.2", "1/h", mode(rules.Off), also(t, "net:/24"))
		},
		func() *rules.Policy { return policy(t, 15, "off-guessing", "ip:*", "1/h", reports, mode(rules.Off)) },
		func() *rules.Policy { return policy(t, 16, "unlimited", "ip:*", "", when(t, "/a", "")) },
		func() *rules.Policy {
			return policy(t, 17, "paths", "ip:*", "9/m", when(t, "/b", ""), also(t, "net:/24 2/m distinct path"))
		},
	}
	keys := []string{"ip:192.0.2.1", "ip:192.0.2.2", "ip:192.0.2.9"}
	rapid.Check(t, func(r *rapid.T) {
		var policies []*rules.Policy
		for _, make := range menu {
			if rapid.Bool().Draw(r, "policy") {
				policies = append(policies, make())
			}
		}
		n := newNode(t, policies...)
		if rapid.Bool().Draw(r, "plan") {
			n.put(t, &profiles.Profile{Key: keys[1], Plan: "gold"})
		}
		if rapid.Bool().Draw(r, "own limit") {
			n.put(t, &profiles.Profile{Key: keys[2], Limit: &profiles.Limit{Rules: stack(t, "2/m"), Reason: "launch", Expires: n.clock().Add(30 * time.Minute)}})
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "entries") {
			n.set.Apply(&blocks.Entry{
				Kind: rapid.SampledFrom([]blocks.Kind{blocks.Block, blocks.Exemption}).Draw(r, "kind"), ID: fmt.Sprint(i), Expires: n.clock().Add(30 * time.Minute),
				Pattern: pattern(t, rapid.SampledFrom([]string{"net:192.0.2.0/24", "ip:192.0.2.0/30", keys[0]}).Draw(r, "pattern")),
			}, n.clock())
		}
		for range rapid.IntRange(0, 12).Draw(r, "steps") {
			k := rapid.SampledFrom(keys).Draw(r, "key")
			switch rapid.SampledFrom([]string{"check", "report", "advance"}).Draw(r, "step") {
			case "check":
				n.check(t, k)
			case "report":
				n.report(t, k, "login_failed")
			default:
				n.advance(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Minute}).Draw(r, "by"))
			}
		}
		for _, k := range keys {
			d := n.check(t, k, peeks)
			n.wantExplained(t, k, &d)
		}
		x, err := n.Explain(t.Context(), key(t, keys[0]), "")
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for left < 20 && n.check(t, keys[0]).Outcome == Allowed {
			left++
		}
		if x.Outcome == Allowed && len(x.Exemptions) == 0 && x.Remaining != left && (x.Remaining >= 0 || left < 20) {
			r.Fatalf("Remaining is %d, and %d checks were then allowed", x.Remaining, left)
		}
	})
}

func TestRemainingCountsRequestsOnly(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "ip:*", "50/s"), policy(t, 2, "trap", "*", "0/s", when(t, "/.env", "")),
		policy(t, 3, "login", "*", "5/d", counts("login_failed"), func(p *rules.Policy) { p.Scope = "login" }))
	d := n.check(t, "ip:192.0.2.1", peeks)
	if x := n.wantExplained(t, "ip:192.0.2.1", &d); x.Remaining != 50 {
		t.Errorf("Remaining is %d, want 50", x.Remaining)
	}
	if x := n.wantExplained(t, "token:a", &d); x.Remaining != -1 {
		t.Errorf("Remaining of a key without a limit is %d, want -1", x.Remaining)
	}
	n.block(t, "b", "ip:192.0.2.1", time.Time{})
	d = n.check(t, "ip:192.0.2.1", peeks)
	if x := n.wantExplained(t, "ip:192.0.2.1", &d); x.Block == nil || x.Block.ID != "b" || x.Remaining != 50 {
		t.Errorf("the explanation has the block %v and %d remaining, want b and 50", x.Block, x.Remaining)
	}
}

func TestLongestOfSeveralBlocksRefuses(t *testing.T) {
	n := newNode(t)
	n.block(t, "short", "ip:192.0.2.1", n.clock().Add(time.Minute))
	n.block(t, "permanent", "ip:192.0.2.0/24", time.Time{})
	n.block(t, "long", "ip:192.0.0.0/16", n.clock().Add(time.Hour))
	d := n.check(t, "ip:192.0.2.1")
	if x := n.wantExplained(t, "ip:192.0.2.1", &d); x.Block == nil || x.Block != d.Block || x.Block.ID != "permanent" {
		t.Errorf("the explanation names %v, the check %v", x.Block, d.Block)
	}
}
