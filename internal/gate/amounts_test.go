package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

func countsAmounts(p *rules.Policy) { p.Algorithm = algorithms.AmountLog }

func withCost(cost int) func(*Check) { return func(c *Check) { c.Cost = cost } }

func TestAmountsAreChargedExactly(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const k = "team:search"
		for _, cost := range []int{700_000_000_000_000, 299_999_999_999_998} {
			if d := n.check(t, k, withCost(cost)); d.Outcome != Allowed {
				t.Fatalf("a cost of %d is %s", cost, d.Outcome)
			}
			n.advance(time.Hour)
		}
		d := n.check(t, k, withCost(3))
		if d.Outcome != Limited || d.RetryAfter() != 22*time.Hour {
			t.Fatalf("a cost of 3 is %s, wait %s, want 22h", d.Outcome, d.RetryAfter())
		}
		if d := n.check(t, k, withCost(2)); d.Outcome != Allowed {
			t.Errorf("the last 2 are %s", d.Outcome)
		}
		d = n.check(t, k, withCost(5_000), func(c *Check) { c.ChargeAlways = true }) // nothing is left to charge
		if d.Outcome != Limited || d.RetryAfter() != 22*time.Hour {
			t.Errorf("usage beyond the limit is %s, wait %s", d.Outcome, d.RetryAfter())
		}
		n.advance(22 * time.Hour)
		if x, err := n.Explain(t.Context(), key(t, k), ""); err != nil || x.Enforcing.Rules[0].Used != 300_000_000_000_000 {
			t.Errorf("the explanation has %+v, %v", x.Enforcing, err)
		}
	}, policy(t, 1, "tokens", "team:*", "1000T/d", countsAmounts))
}

func TestCountersThatAddCostsUpTakeAmounts(t *testing.T) {
	for _, name := range []string{algorithms.FixedWindow, algorithms.SlidingBuckets} {
		t.Run(name, func(t *testing.T) {
			onEveryLog(t, func(t *testing.T, n *node) {
				const k = "team:search"
				for _, cost := range []int{700_000_000_000_000, 299_999_999_999_998} {
					if d := n.check(t, k, withCost(cost)); d.Outcome != Allowed {
						t.Fatalf("a cost of %d is %s", cost, d.Outcome)
					}
				}
				if d := n.check(t, k, withCost(3)); d.Outcome != Limited || d.RetryAfter() <= 0 || d.RetryAfter() > 25*time.Hour {
					t.Fatalf("a cost of 3 is %s, wait %s", d.Outcome, d.RetryAfter())
				}
				// What is used beyond the limit fills it.
				if d := n.check(t, k, withCost(5_000_000), func(c *Check) { c.ChargeAlways = true }); d.Outcome != Limited {
					t.Errorf("usage beyond the limit is %s", d.Outcome)
				}
				if x, err := n.Explain(t.Context(), key(t, k), ""); err != nil || x.Enforcing.Rules[0].Used != algorithms.MaxAmount {
					t.Errorf("the explanation has %+v, %v", x.Enforcing, err)
				}
				n.advance(25 * time.Hour)
				if d := n.check(t, k, withCost(algorithms.MaxAmount)); d.Outcome != Allowed {
					t.Errorf("the whole limit is %s a day later", d.Outcome)
				}
			}, policy(t, 1, "tokens", "team:*", "1000T/d", func(p *rules.Policy) { p.Algorithm = name }))
		})
	}
}

func TestCostsAreBoundedByWhatThePolicyCounts(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "50000/m"), policy(t, 2, "tokens", "team:*", "1M/m", countsAmounts))
	always := func(c *Check) { c.ChargeAlways = true }
	for _, c := range []struct {
		key    string
		change []func(*Check)
		want   string
	}{
		{"ip:203.0.113.7", []func(*Check){withCost(1000)}, ""},
		{"ip:203.0.113.7", []func(*Check){withCost(1001)}, "from 1 to 1000 under policy default"},
		{"ip:203.0.113.7", []func(*Check){withCost(100_000), always}, ""},
		{"ip:203.0.113.7", []func(*Check){withCost(100_001), always}, "from 1 to 100000 under policy default"},
		{"team:a", []func(*Check){withCost(1_000_000)}, ""},
		{"team:a", []func(*Check){withCost(1_000_001)}, "can never be allowed"},
		{"team:a", []func(*Check){withCost(1), func(c *Check) { c.MaxWait = time.Minute }}, "nothing is reserved"},
	} {
		check := Check{Key: key(t, c.key), Cost: 1}
		for _, change := range c.change {
			change(&check)
		}
		_, err := n.Check(t.Context(), check)
		var problem *fault.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &problem) || !strings.Contains(problem.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.key, err, c.want)
		}
	}
}
