package algorithms_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// morning is a time in 2100. The contract suite's clock starts then, too.
const morning = 4_102_444_800_000

// counters returns the algorithms that are not logs of requests.
func counters() []*algorithms.Algorithm {
	var found []*algorithms.Algorithm
	for _, a := range algorithms.All() {
		if !a.IsLog() {
			found = append(found, a)
		}
	}
	return found
}

// variant is a counter with certain options.
type variant struct {
	name string
	*algorithms.Algorithm
	options algorithms.Options
	amounts bool // with a unit
}

// variants returns the counters with each value of each of their options.
func variants() []variant {
	var all []variant
	for _, a := range counters() {
		all = append(all, variant{name: a.Name, Algorithm: a})
		if a.NeedsUnit() {
			all = append(all, variant{name: a.Name + " of amounts", Algorithm: a, amounts: true})
		}
		for _, more := range []struct {
			option, name string
			options      algorithms.Options
		}{
			{algorithms.OptionWindowStart, " from the first request", algorithms.Options{WindowStart: algorithms.WindowFirst}},
			{algorithms.OptionVariant, " as a queue", algorithms.Options{Variant: algorithms.VariantQueue}},
		} {
			if a.Takes(more.option) {
				all = append(all, variant{name: a.Name + more.name, Algorithm: a, options: more.options})
				if a.NeedsUnit() {
					all = append(all, variant{name: a.Name + more.name + " of amounts", Algorithm: a, options: more.options, amounts: true})
				}
			}
		}
	}
	return all
}

// forEach runs a test for each variant.
func forEach(t *testing.T, test func(t *testing.T, v variant)) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) { test(t, v) })
	}
}

// rule returns a rule of v.
func (v variant) rule(limit, window int64) algorithms.Rule {
	return algorithms.Rule{Limit: limit, Window: window, Options: v.options, Amounts: v.amounts}
}

// stack returns a stack of one rule.
func (v variant) stack(limit, window int64) *algorithms.Stack {
	return algorithms.NewStack(v.Algorithm, []algorithms.Rule{v.rule(limit, window)})
}

// drawRules draws a stack of up to maxRules rules, either small or as large as allowed.
func drawRules(t *rapid.T, v variant, maxRules int) []algorithms.Rule {
	options := v.options
	if v.Takes(algorithms.OptionBurst) {
		options.Burst = rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 20), rapid.IntRange(1, algorithms.MaxBurst), rapid.IntRange(1, algorithms.MaxAmount)).Draw(t, "burst")
	}
	rules := make([]algorithms.Rule, rapid.IntRange(1, maxRules).Draw(t, "rules"))
	for i := range rules {
		rules[i] = algorithms.Rule{
			Limit:   rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(1, v.largest(100_000))).Draw(t, "limit"),
			Window:  rapid.OneOf(rapid.Int64Range(1, 200), rapid.Int64Range(1, 100_000), rapid.Just[int64](86_400_000), rapid.Int64Range(1, 31*86_400_000)).Draw(t, "window"),
			Options: options, Amounts: v.amounts,
		}
	}
	return rules
}

// drawStep draws by how much the clock moves: rarely back, and often by about the wait of the
// last answer.
func drawStep(t *rapid.T, rules []algorithms.Rule, wait int64) int64 {
	window := rapid.SampledFrom(rules).Draw(t, "window of").Window
	return rapid.OneOf(
		rapid.Just[int64](0),
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, window),
		rapid.Int64Range(0, 3*window),
		rapid.Just(wait),
		rapid.Just(max(0, wait-1)),
		rapid.Int64Range(-window, 0),
		rapid.SampledFrom([]int64{-1, -2, -3_600_000, -40 * 86_400_000, 90 * 86_400_000}),
	).Draw(t, "step")
}

// largest returns the largest limit or cost to draw: usual, or that of amounts.
func (v variant) largest(usual int64) int64 {
	if v.Amounts || v.amounts || algorithms.TakesAmounts(v.Name) && !v.NeedsUnit() {
		return algorithms.MaxAmount
	}
	return usual
}

// drawCost draws a cost that is often 1 or the largest allowed one.
func (v variant) drawCost(t *rapid.T, rules []algorithms.Rule) int64 {
	largest := v.largest(1000)
	for _, r := range rules {
		largest = min(largest, r.Limit, r.Capacity())
	}
	return rapid.OneOf(rapid.Just[int64](1), rapid.Int64Range(1, max(1, largest)), rapid.Just(max(1, largest)), rapid.Int64Range(1, 1000)).Draw(t, "cost")
}
