package logtest

import (
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
)

// Items of evidence.
const (
	missing = 3
	failed  = algorithms.MaxItem
)

// charge reports evidence.
func (f *fixture) charge(points int, tag algorithms.Tag) {
	f.t.Helper()
	q := f.request(points)
	q.Value, q.ChargeAlways = uint64(tag), true
	f.decide(q)
}

// wantPoints fails the test unless the log has these charges of items, the newest first, and a check is
// refused until retry milliseconds after the test's beginning; 0 if it is allowed.
func (f *fixture) wantPoints(retry int64, want ...algorithms.Charge) {
	f.t.Helper()
	charges, now, err := f.Log.Charges(f.t.Context(), f.id(), f.policy.Rules.LongestWindow().Milliseconds())
	if err != nil || now != f.Clock.NowMS() {
		f.t.Fatalf("Charges: at %d, %v", now-f.start, err)
	}
	for i := range charges {
		charges[i].At -= f.start
	}
	if !slices.Equal(charges, want) {
		f.t.Fatalf("Charges: got %v, want %v", charges, want)
	}
	q := f.request(1)
	q.Uncharged = true
	r := f.decide(q)
	if got := r.RetryAt - f.start; r.Allowed != (retry == 0) || !r.Allowed && got != retry {
		f.t.Fatalf("a check: %s, want it refused until +%d", f.describe(r), retry)
	}
}

func points(t *testing.T, h Harness) {
	f := newFixture(t, h, "10/1s", "15/1m")
	page := func(n uint64) algorithms.Tag { return algorithms.TagOf(missing, n) }
	f.at(0).charge(4, page(1))
	f.at(1).charge(4, page(1)) // known
	f.at(2).charge(4, page(1<<63))
	f.wantPoints(0, algorithms.Charge{At: 2, Item: missing, Points: 4}, algorithms.Charge{At: 0, Item: missing, Points: 4})
	f.at(3).charge(3, algorithms.TagOf(failed, 0)) // 2 fit
	f.wantPoints(1000, algorithms.Charge{At: 3, Item: failed, Points: 2}, algorithms.Charge{At: 2, Item: missing, Points: 4}, algorithms.Charge{At: 0, Item: missing, Points: 4})
	f.at(4).charge(5, algorithms.Forgive(failed)) // never below zero, nor of another item
	f.wantPoints(0, algorithms.Charge{At: 2, Item: missing, Points: 4}, algorithms.Charge{At: 0, Item: missing, Points: 4})
	f.at(5).charge(6, algorithms.Forgive(missing)) // the newest first
	f.wantPoints(0, algorithms.Charge{At: 0, Item: missing, Points: 2})
	f.at(2_000).charge(2, page(1)) // still younger than a minute
	f.at(2_001).charge(20, algorithms.TagOf(failed, 0))
	f.wantPoints(3_001, algorithms.Charge{At: 2_001, Item: failed, Points: 10}, algorithms.Charge{At: 0, Item: missing, Points: 2})
	f.at(3_001).charge(20, page(7)) // up to 15 in a minute
	f.wantPoints(60_000, algorithms.Charge{At: 3_001, Item: missing, Points: 3}, algorithms.Charge{At: 2_001, Item: failed, Points: 10}, algorithms.Charge{At: 0, Item: missing, Points: 2})
	f.at(60_000).charge(1, page(1)) // the first charge of it has left the minute
	f.wantPoints(0, algorithms.Charge{At: 60_000, Item: missing, Points: 1}, algorithms.Charge{At: 3_001, Item: missing, Points: 3}, algorithms.Charge{At: 2_001, Item: failed, Points: 10})
}
