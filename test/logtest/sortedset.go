package logtest

import (
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// RunSortedSet runs the contracts of the sorted set log: all those of the exact
// logs, and those of refused requests that count.
func RunSortedSet(t *testing.T, newHarness func(*testing.T) Harness) {
	sorted := func(t *testing.T) Harness {
		h := newHarness(t)
		h.Algorithm = algorithms.SortedSetLog
		return h
	}
	Run(t, sorted)
	run(t, refusedCount(), func(t *testing.T) Harness {
		h := sorted(t)
		h.Options.CountRefused = true
		return h
	})
}

func refusedCount() []contract {
	return []contract{
		{"where refused requests count, any sequence is answered as brute force answers it", simulate(func() oracle { return newModel() })},
		{"where refused requests count, a client that never pauses is never allowed again", neverPauses},
		{"where refused requests count, the reported wait counts the refused one too", refusedWait},
		{"where refused requests count, a log keeps no more of them than its largest limit", refusedBounded},
		{"where refused requests count, a peek does not", refusedPeek},
		{"where refused requests count, those about several keys do not", refusedCombined},
	}
}

func neverPauses(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	f.allow(2)
	for i := range int64(20) {
		f.at((i+1)*400).limit(1, "2/1s", i*400+1000)
	}
	f.at(20*400 + 1000).allow(1)
}

func refusedWait(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/10s")
	f.allow(3)
	f.at(4*second).limit(2, "3/10s", 14*second)
	f.wantTimes(4000, 4000, 0)
	f.wantLimited(f.at(14*second-1).peek(2), "3/10s", 14*second)
	f.at(14 * second).allow(2)
}

func refusedBounded(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s", "5/m")
	for i := range int64(50) {
		f.at(i)
		f.ask(2)
	}
	f.wantTimes(49, 49, 48, 48, 47)
}

func refusedPeek(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	f.allow(2)
	for range 5 {
		f.wantLimited(f.at(500).peek(1), "2/1s", 1000)
	}
	f.wantTimes(0, 0)
}

func refusedCombined(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	other := f.with("2/s")
	f.allow(2)
	results := f.at(500).decideCombined(f.request(1), other.request(1))
	f.wantLimited(results[0], "2/1s", 1000)
	other.wantAllowed(results[1])
	f.wantTimes(0, 0)
	other.wantTimes()
}

// decideCombined decides all requests as one.
func (f *fixture) decideCombined(requests ...timestamplog.Request) []timestamplog.Result {
	f.t.Helper()
	results := make([]timestamplog.Result, len(requests))
	if err := f.Log.DecideAll(f.t.Context(), requests, results); err != nil {
		f.t.Fatalf("DecideAll: %v", err)
	}
	return results
}
