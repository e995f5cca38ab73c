package rules_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

func TestRuleWithAWarningDecidesNothingUnderACounter(t *testing.T) {
	warned := 0
	rapid.Check(t, func(t *rapid.T) {
		p := &rules.Policy{Algorithm: rapid.SampledFrom([]string{
			algorithms.FixedWindow, algorithms.SlidingBuckets, algorithms.TokenBucket, algorithms.LeakyBucket, algorithms.GCRA,
		}).Draw(t, "algorithm")}
		a := algorithms.ByName(p.Algorithm)
		if a.Takes(algorithms.OptionBurst) {
			p.Options.Burst = rapid.IntRange(0, 4).Draw(t, "burst")
		}
		unit := rapid.SampledFrom([]time.Duration{time.Millisecond, 61 * time.Millisecond, time.Second}).Draw(t, "unit")
		var drawn []rules.Rule
		for range 2 {
			drawn = append(drawn, rules.Rule{Limit: rapid.IntRange(1, 8).Draw(t, "limit"), Window: unit * time.Duration(rapid.IntRange(1, 12).Draw(t, "window"))})
		}
		var err error
		if p.Rules, err = rules.NewStack(drawn...); err != nil {
			return // both rules are the same
		}
		idle := p.Warnings()
		if len(idle) == 0 {
			return
		}
		warned++
		binding := slices.DeleteFunc(slices.Clone(p.Rules), func(r rules.Rule) bool { return r == idle[0].Rule })
		whole, without := algorithms.NewStack(a, p.Rules.Counted(p.Options)), algorithms.NewStack(a, binding.Counted(p.Options))
		var one, other algorithms.State
		now := int64(1_700_000_000_000)
		for range 60 {
			now += rapid.Int64Range(0, 4*unit.Milliseconds()).Draw(t, "later")
			q := algorithms.Query{Now: now, Cost: 1}
			if v, w := whole.Decide(&one, q, nil), without.Decide(&other, q, nil); v.AllowedAt != w.AllowedAt || v.Allowed != w.Allowed {
				t.Fatalf("%s with %v: %v decides %+v, and without the rule in the warning %+v", p.Algorithm, p.Options, p.Rules, v, w)
			}
		}
	})
	if warned == 0 {
		t.Error("no policy had a warning, so nothing was tested")
	}
}
