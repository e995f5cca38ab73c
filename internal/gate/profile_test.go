package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// put applies profiles, as the catalog does.
func (n *node) put(t testing.TB, all ...*profiles.Profile) {
	t.Helper()
	if _, err := n.profiles.Apply(func(yield func(*profiles.Profile, error) bool) {
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func stack(t testing.TB, texts ...string) rules.Stack {
	t.Helper()
	s, err := rules.ParseStack(texts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlanSelectsThePolicy(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"), policy(t, 2, "gold", "plan:gold", "3/m"))
	n.put(t, &profiles.Profile{Key: "token:a", Plan: "gold"})
	for range 3 {
		if d := n.check(t, "token:a"); d.Outcome != Allowed || d.Policy.Name != "gold" {
			t.Fatalf("%s by %s", d.Outcome, d.Policy.Name)
		}
	}
	if d := n.check(t, "token:a"); d.Outcome != Limited || d.Policy.Name != "gold" {
		t.Errorf("%s by %s", d.Outcome, d.Policy.Name)
	}
	if d := n.check(t, "token:b"); d.Policy.Name != "default" {
		t.Errorf("a key without a plan is limited by %s", d.Policy.Name)
	}
	x, err := n.Explain(t.Context(), key(t, "token:a"), "")
	if err != nil || x.Plan != "gold" || x.Enforcing.Pattern.String() != "plan:gold" || x.Outcome != Limited {
		t.Errorf("%+v: %v", x, err)
	}
	n.put(t, &profiles.Profile{Key: "token:a"})
	if d := n.check(t, "token:a"); d.Outcome != Allowed || d.Policy.Name != "default" {
		t.Errorf("without its plan: %s by %s", d.Outcome, d.Policy.Name)
	}
}

// TestOwnLimitReplacesTheRules covers the whole life of a limit: earlier requests count under
// it, it ends exactly at its expiry, and what it allowed counts afterwards.
func TestOwnLimitReplacesTheRules(t *testing.T) {
	for _, name := range []string{algorithms.TimestampLog, algorithms.SortedSetLog, algorithms.FixedWindow} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, policy(t, 1, "default", "*", "4/h", func(p *rules.Policy) { p.Algorithm = name }))
			n.now.Store(1_790_002_800_000 / 3_600_000 * 3_600_000)
			for range 3 {
				n.check(t, "user:x")
			}
			until := n.clock().Add(time.Minute)
			n.put(t, &profiles.Profile{Key: "user:x", Limit: &profiles.Limit{Rules: stack(t, "5/h"), Reason: "launch", Expires: until}})
			for i, want := range []Outcome{Allowed, Allowed, Limited} { // 3 of 5 are used already
				d := n.check(t, "user:x")
				if d.Outcome != want || d.Policy.Name != "default" || d.OwnLimit == nil {
					t.Fatalf("check %d under the limit: %s by %s", i, d.Outcome, d.Policy.Name)
				}
				if rule, refused := d.DecidingRule(); refused != (want == Limited) || refused && rule.String() != "5/1h" {
					t.Errorf("refused by %s", rule)
				}
			}
			x, err := n.Explain(t.Context(), key(t, "user:x"), "")
			if err != nil || x.OwnLimit == nil || len(x.Enforcing.Rules) != 1 || x.Enforcing.Rules[0].Rule.Limit != 5 || x.Enforcing.Pattern.String() != "*" {
				t.Errorf("explained as %+v: %v", x, err)
			}
			if d := n.check(t, "user:y"); d.OwnLimit != nil {
				t.Error("another key has the limit too")
			}
			n.now.Store(until.UnixMilli() - 1)
			if d := n.check(t, "user:x"); d.OwnLimit == nil {
				t.Error("the limit ended a millisecond early")
			}
			n.now.Store(until.UnixMilli())
			d := n.check(t, "user:x")
			if rule, _ := d.DecidingRule(); d.OwnLimit != nil || d.Outcome != Limited || rule.String() != "4/1h" {
				t.Errorf("after the limit: %s by %s; the five that it allowed still count", d.Outcome, rule)
			}
		})
	}
}

func TestOwnLimitBesideOtherPolicies(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"), policy(t, 2, "login", "login:*", "1/m"), policy(t, 3, "off", "off:*", "1/m", mode(rules.Off)))
	limit := func() *profiles.Limit { return &profiles.Limit{Rules: stack(t, "2/m"), Reason: "r"} }
	n.put(t, &profiles.Profile{Key: "user:x", Limit: limit()}, &profiles.Profile{Key: "off:x", Limit: limit()}, &profiles.Profile{Key: "user:b", Limit: limit()})
	named := func(c *Check) { c.Policy = "login" }
	if n.check(t, "user:x", named); n.check(t, "user:x", named).Outcome != Limited {
		t.Error("the limit replaced the rules of a policy that the check names")
	}
	specific := func(c *Check) { c.Specific = true }
	if d := n.check(t, "user:x", specific); d.OwnLimit == nil {
		t.Error("a check for specific policies ignores the key's own limit")
	}
	if n.check(t, "user:x"); n.check(t, "user:x").Outcome != Limited {
		t.Error("the checks for specific policies were counted elsewhere")
	}
	if n.check(t, "off:x"); n.check(t, "off:x").Outcome != Allowed || n.check(t, "off:x").Outcome != Limited {
		t.Error("the limit does not apply under a policy that is off")
	}
	n.block(t, "b", "user:b", time.Time{})
	if d := n.check(t, "user:b"); d.Outcome != Blocked {
		t.Errorf("a blocked key with a limit is %s", d.Outcome)
	}
	bare := newNode(t)
	bare.put(t, &profiles.Profile{Key: "user:x", Limit: limit()})
	for _, want := range []Outcome{Allowed, Allowed, Limited} {
		if d := bare.check(t, "user:x"); d.Outcome != want || d.Policy.Name != profiles.NoPolicy {
			t.Errorf("%s, want %s", d.Outcome, want)
		}
	}
	if d := bare.check(t, "user:y"); d.Policy != nil {
		t.Error("a key without a policy and a limit has a policy")
	}
}

// BenchmarkPlans compares checks of 100,000 keys with plans: without a policy that selects by
// plan, where nothing is looked up, and with one. It measures only the selection of the policy,
// without the log.
func BenchmarkPlans(b *testing.B) {
	const n = 100_000
	checks := make([]Check, n)
	known := make([]*profiles.Profile, n)
	for i := range checks {
		text := fmt.Sprintf("token:%012d", i*7919%n)
		checks[i] = Check{Key: key(b, text), Cost: 1}
		known[i] = &profiles.Profile{Key: text, Plan: []string{"free", "silver", "gold"}[i%3]}
	}
	for _, c := range []struct {
		name     string
		policies []*rules.Policy
	}{
		{"byKey", []*rules.Policy{policy(b, 1, "default", "*", "100000/d")}},
		{"byPlan", []*rules.Policy{
			policy(b, 1, "default", "*", "100000/d"), policy(b, 2, "free", "plan:free", "100000/d"),
			policy(b, 3, "silver", "plan:silver", "100000/d"), policy(b, 4, "gold", "plan:gold", "100000/d"),
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			node := newNode(b, c.policies...)
			node.put(b, known...)
			selector, set := node.Selector(), node.Blocks()
			var d Decision
			now := time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.begin(&checks[i%n], now)
				if err := node.prepare(&d, selector, set); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A limit of the key's own may refuse for longer than it lasts. A refused request waits until it ends
// at most, and the policy decides from then on.
func TestNobodyWaitsForAnOwnLimitThatHasEnded(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		until := n.clock().Add(time.Minute)
		n.put(t, &profiles.Profile{Key: "user:x", Limit: &profiles.Limit{Rules: stack(t, "1/s", "2/h"), Reason: "slow down", Expires: until}})
		detailed := func(c *Check) { c.Detail = true }
		n.check(t, "user:x")
		if d := n.check(t, "user:x", detailed); d.Outcome != Limited || d.RetryAfter() != time.Second || d.States[0].RetryAfterMS != 1000 {
			t.Errorf("a wait that the limit outlasts: %s for %s, %+v", d.Outcome, d.RetryAfter(), d.States)
		}
		n.advance(time.Second)
		if d := n.check(t, "user:x", detailed); d.Outcome != Allowed || d.States[1].RetryAfterMS != 59_000 {
			t.Errorf("the second request is %s, %+v", d.Outcome, d.States)
		}
		n.advance(30 * time.Second)
		d := n.check(t, "user:x", detailed)
		if d.Outcome != Limited || !d.RetryAt.Equal(until) || d.States[0].RetryAfterMS != 0 || d.States[1].RetryAfterMS != 29_000 {
			t.Errorf("the limit ends at %s: %s until %s, %+v", until, d.Outcome, d.RetryAt, d.States)
		}
		if rule, _ := d.DecidingRule(); rule.String() != "2/1h" {
			t.Errorf("refused by %s", rule)
		}
		if all := n.checkAll(t, []string{"user:x", "user:y"}); all.Outcome != Limited || !all.RetryAt.Equal(until) {
			t.Errorf("several keys: %s until %s", all.Outcome, all.RetryAt)
		}
		if d := n.check(t, "user:x", func(c *Check) { c.Cost, c.ChargeAlways = 5, true }); d.Never || !d.RetryAt.Equal(until) {
			t.Errorf("a cost above the limit: %s until %s, never: %v", d.Outcome, d.RetryAt, d.Never)
		}
		x, err := n.Explain(t.Context(), key(t, "user:x"), "")
		if err != nil || x.Outcome != Limited || !x.NextAllowed.Equal(until) || !x.Enforcing.Rules[1].RetryAt.Equal(until) {
			t.Errorf("explained: %+v, %v", x, err)
		}
		n.advance(29*time.Second - time.Millisecond)
		if d := n.check(t, "user:x"); d.Outcome != Limited || d.RetryAfter() != time.Millisecond {
			t.Errorf("a millisecond before its end: %s for %s", d.Outcome, d.RetryAfter())
		}
		n.advance(time.Millisecond)
		if d := n.check(t, "user:x"); d.Outcome != Allowed {
			t.Errorf("at its end: %s until %s", d.Outcome, d.RetryAt)
		}
	}, policy(t, 1, "default", "*", "100/h"))
}

// A message about the policy would send its reader to rules that allow the cost.
func TestCostAboveAnOwnLimitNamesThatLimit(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "9/m"))
	n.put(t, &profiles.Profile{Key: "user:x", Limit: &profiles.Limit{Rules: stack(t, "2/h", "5/d"), Reason: "slow down"}})
	_, err := n.Check(t.Context(), Check{Key: key(t, "user:x"), Cost: 4})
	if fieldOf(err) != "cost" || !strings.Contains(err.Error(), "limit of its own") || !strings.Contains(err.Error(), "is 2") || strings.Contains(err.Error(), "default") {
		t.Errorf("got %v", err)
	}
	if _, err := n.Check(t.Context(), Check{Key: key(t, "user:y"), Cost: 10}); fieldOf(err) != "cost" || !strings.Contains(err.Error(), "policy default is 9") {
		t.Errorf("without a limit of its own: got %v", err)
	}
}
