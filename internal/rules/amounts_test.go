package rules_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

func amounts(t *testing.T, algorithm string, texts ...string) *rules.Policy {
	t.Helper()
	stack, err := rules.ParseStack(texts)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{Name: "tokens", Match: []keys.Pattern{keytest.Pattern(t, "team:*")}, Rules: stack, Algorithm: algorithm, Mode: rules.Enforce, OnFailure: rules.FailLocal}
}

func TestLimitsBeyondThoseOfRequestsNeedAnAlgorithmOfAmounts(t *testing.T) {
	for _, a := range algorithms.All() {
		err := amounts(t, a.Name, "1M/d").Validate()
		if (algorithms.TakesAmounts(a.Name) && !a.NeedsUnit()) != (err == nil) {
			t.Errorf("1M/d under %s: got %v", a.Name, err)
		}
		if err := amounts(t, a.Name, "1M tokens/d").Validate(); algorithms.TakesAmounts(a.Name) != (err == nil) {
			t.Errorf("1M tokens/d under %s: got %v", a.Name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "choose the algorithm amount_log") && !strings.Contains(err.Error(), `as in "1M tokens/1d"`) {
			t.Errorf("1M/d under %s: %v names no way out", a.Name, err)
		}
	}
	for text, want := range map[string]string{"1M/d": algorithms.AmountLog, "100000/d": algorithms.TimestampLog} {
		if got := rules.AlgorithmFor(amounts(t, "", text).Rules, nil); got != want {
			t.Errorf("%s without an algorithm is counted by %s, want %s", text, got, want)
		}
	}
}

// Counters take amounts too, but nothing can be held or taken back there.
func TestCountersOfAmountsHoldNothing(t *testing.T) {
	for _, name := range []string{algorithms.FixedWindow, algorithms.SlidingWindow, algorithms.SlidingBuckets, algorithms.TokenBucket, algorithms.LeakyBucket, algorithms.GCRA} {
		p := amounts(t, name, "1000T tokens/1d")
		p.Cost = 2_000_000
		if err := p.Validate(); err != nil || !p.CountsAmounts() || p.TakesHolds() || p.CanCancel() {
			t.Errorf("%s: %v, counts amounts: %v, takes holds: %v", name, err, p.CountsAmounts(), p.TakesHolds())
		}
		p.Hold = rules.MinHold
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "needs the algorithm amount_log: the others keep only counts") {
			t.Errorf("a hold under %s: %v", name, err)
		}
		if p := amounts(t, name, "100/1d"); p.CountsAmounts() {
			t.Errorf("%s without a unit takes amounts", name)
		}
	}
	for _, name := range []string{algorithms.SortedSetLog, algorithms.TimestampLog} {
		if err := amounts(t, name, "10 tokens/1d").Validate(); err == nil || !strings.Contains(err.Error(), "keeps single requests; rules with a unit need amount_log or one of the counters") {
			t.Errorf("a unit under %s: %v", name, err)
		}
	}
}

// None of this may take time or memory that grows with the limit.
func TestAmountsAreDescribedWhateverTheirLimit(t *testing.T) {
	p := amounts(t, algorithms.AmountLog, "900T/d", "100T/h", "200T/s")
	if text := p.Describe(); !strings.Contains(text, "100,000,000,000,000 in any hour") {
		t.Errorf("Describe returns %q", text)
	}
	if w := p.Warnings(); len(w) != 1 || w[0].Rule.String() != "200T/1s" {
		t.Errorf("Warnings returns %v, want 200T/s, which 100T/h makes ineffective", w)
	}
	if len(p.Rules.Warnings()) == 0 || len(p.Rules.UsedUp()) != 0 || p.Advice() != "" {
		t.Errorf("got %v, %v, %q", p.Rules.Warnings(), p.Rules.UsedUp(), p.Advice())
	}
}

// The limits differ by a factor whose products with windows need more than 64 bits.
func TestBucketsOfAmountsAreDescribedExactly(t *testing.T) {
	p := amounts(t, algorithms.TokenBucket, "1000T tokens/31d", "999T tokens/30d")
	p.Options.Burst = 400_000_000
	if w := p.Warnings(); len(w) != 1 || w[0].Rule.Limit != 999_000_000_000_000 {
		t.Errorf("Warnings returns %v, want the rule of 30 days, whose pace is faster", w)
	}
	if err := p.Validate(); err != nil || p.LargestCost() != p.Options.Burst || !strings.Contains(p.Describe(), "400,000,000 at once") {
		t.Errorf("got %v, the largest cost %d and %q", err, p.LargestCost(), p.Describe())
	}
	p.Rules = amounts(t, "", "5/1d").Rules
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "options.burst must be at most 100000") {
		t.Errorf("a burst of 400M beside the limit 5: got %v", err)
	}
	queue := amounts(t, algorithms.LeakyBucket, "900T tokens/30d")
	queue.Options.Variant = algorithms.VariantQueue
	if text := queue.Describe(); !strings.Contains(text, "at most 4 weeks") && !strings.Contains(text, "at most 30 days") {
		t.Errorf("Describe returns %q", text)
	}
}

func TestWindowsOfAmountsMayChange(t *testing.T) {
	p, q := amounts(t, algorithms.AmountLog, "1M/d"), amounts(t, algorithms.AmountLog, "2M/d", "100k/h")
	if p.MovesGeneration(q) {
		t.Error("other windows reset the counts")
	}
	if !p.MovesGeneration(amounts(t, algorithms.TimestampLog, "5/d")) {
		t.Error("another algorithm keeps the counts")
	}
}
