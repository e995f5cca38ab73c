package algorithms_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
)

func TestEveryAlgorithmIsDescribedAndFound(t *testing.T) {
	seen := map[string]bool{}
	for i, a := range algorithms.All() {
		if a.Name == "" || a.Title == "" || !strings.HasSuffix(a.Summary, ".") {
			t.Errorf("%+v lacks a name, a title or a summary", a)
		}
		if seen[a.Name] || algorithms.ByName(a.Name) != a || algorithms.Names()[i] != a.Name {
			t.Errorf("%s is not found by its name, or its name is not unique", a.Name)
		}
		seen[a.Name] = true
		if (a.IsLog() || a.Amounts) != a.Exact || a.IsLog() != (a.Lua == "") || (a.Counter != nil) == a.Exact {
			t.Errorf("%s: IsLog is %v, Exact is %v and the Lua text has %d bytes", a.Name, a.IsLog(), a.Exact, len(a.Lua))
		}
	}
	if algorithms.All()[0].Name != algorithms.TimestampLog {
		t.Errorf("the default is %s", algorithms.All()[0].Name)
	}
	if algorithms.ByName("none of them") != nil {
		t.Error("ByName finds an algorithm that does not exist")
	}
}

func TestOptionsAreRejectedWhereTheyHaveNoEffect(t *testing.T) {
	for _, c := range []struct {
		name, algorithm string
		options         algorithms.Options
		wrong           string // the option
	}{
		{"no options", algorithms.TimestampLog, algorithms.Options{}, ""},
		{"a burst of a log", algorithms.TimestampLog, algorithms.Options{Burst: 1}, algorithms.OptionBurst},
		{"refused requests counted by a sorted set", algorithms.SortedSetLog, algorithms.Options{CountRefused: true}, ""},
		{"refused requests counted by a counter", algorithms.SlidingWindow, algorithms.Options{CountRefused: true}, algorithms.OptionCountRefused},
		{"a window from the first request", algorithms.FixedWindow, algorithms.Options{WindowStart: algorithms.WindowFirst}, ""},
		{"an unknown window start", algorithms.FixedWindow, algorithms.Options{WindowStart: "noon"}, algorithms.OptionWindowStart},
		{"a window start of sliding buckets", algorithms.SlidingBuckets, algorithms.Options{WindowStart: algorithms.WindowClock}, algorithms.OptionWindowStart},
		{"the largest burst", algorithms.TokenBucket, algorithms.Options{Burst: algorithms.MaxAmount}, ""},
		{"a burst too large", algorithms.GCRA, algorithms.Options{Burst: algorithms.MaxAmount + 1}, algorithms.OptionBurst},
		{"a burst below 0", algorithms.GCRA, algorithms.Options{Burst: -1}, algorithms.OptionBurst},
		{"a queue with a length", algorithms.LeakyBucket, algorithms.Options{Variant: algorithms.VariantQueue, Burst: 5}, ""},
		{"an unknown variant", algorithms.LeakyBucket, algorithms.Options{Variant: "sieve"}, algorithms.OptionVariant},
		{"a token bucket as a queue", algorithms.TokenBucket, algorithms.Options{Variant: algorithms.VariantQueue}, algorithms.OptionVariant},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := algorithms.ByName(c.algorithm).Check(c.options)
			var wrong *algorithms.OptionError
			if c.wrong == "" && err != nil || c.wrong != "" && (!errors.As(err, &wrong) || wrong.Option != c.wrong) {
				t.Fatalf("got %v, want %q to be wrong", err, c.wrong)
			}
		})
	}
}

// The size of a counter's state does not depend on the limit, so that the state remains usable
// after the limit changes.
func TestSizeDoesNotDependOnTheLimit(t *testing.T) {
	forEach(t, func(t *testing.T, v variant) {
		if v.Amounts {
			return // its rules share one state; see amount_log_test.go
		}
		for _, window := range []int64{1, 59, 60, 61, 1_000, 31 * 86_400_000} {
			size := v.Counter.Size(v.rule(1, window))
			if size < 1 || size > 61 {
				t.Errorf("Size is %d for a window of %d ms, want 1 to 61", size, window)
			}
			for _, limit := range []int64{0, 60, 100_000} {
				if got := v.Counter.Size(v.rule(limit, window)); got != size {
					t.Errorf("Size is %d for a limit of %d, want %d as for 1", got, limit, size)
				}
			}
		}
	})
}

// The wait for a reservation is bounded by the queue, or by nothing if there is no queue.
func TestQueueMaxDelay(t *testing.T) {
	longest := algorithms.ByName(algorithms.LeakyBucket).Counter.(algorithms.Queue).MaxDelay
	as := algorithms.Options{Variant: algorithms.VariantQueue, Burst: 7}
	for _, c := range []struct {
		rule algorithms.Rule
		want int64
	}{
		{algorithms.Rule{Limit: 10, Window: 1000, Options: as}, 700},
		{algorithms.Rule{Limit: 10, Window: 1000, Options: algorithms.Options{Variant: algorithms.VariantQueue}}, 1000},
		{algorithms.Rule{Limit: 10, Window: 1000}, math.MaxInt64},
		{algorithms.Rule{Limit: 0, Window: 1000, Options: as}, math.MaxInt64},
	} {
		if got := longest(c.rule); got != c.want {
			t.Errorf("MaxDelay(%+v) = %d, want %d", c.rule, got, c.want)
		}
	}
}
