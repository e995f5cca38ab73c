package logtest

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func usage() []contract {
	return []contract{
		{"usage that does not fit fills the limit and is refused, and no rule is exceeded", usageFills},
		{"usage that fits is charged whole", usageFits},
		{"usage above every limit fills the limit, up to MaxUsage", usageLargest},
		{"usage charges nothing in a peek, in a full log and while a reservation lies ahead", usageNothing},
		{"usage that was charged whole is known by its ID, and what only filled the limit is not", usageNamed},
		{"usage of several keys fills each of their limits where one is refused", usageCombined},
	}
}

// use returns a request that reports usage of f.
func use(f *fixture, cost int) timestamplog.Request {
	q := f.request(cost)
	q.ChargeAlways, q.Detail = true, true
	return q
}

func usageFills(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s", "5/10s")
	f.allow(1)
	r := f.at(100).decide(use(f, 3))
	f.wantLimited(r, "5/10s", 10_000)
	f.wantStates(r.States, state(0, 1000), state(2, 9900))
	f.wantTimes(100, 100, 0)
	r = f.at(1100).decide(use(f, 3))
	f.wantLimited(r, "5/10s", 10_100)
	f.wantTimes(1100, 1100, 100, 100, 0)
	f.limit(1, "5/10s", 10_000)
}

func usageFits(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	f.wantAllowed(f.decide(use(f, 3)))
	f.wantTimes(0, 0, 0)
}

func usageLargest(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/s")
	r := f.decide(use(f, timestamplog.MaxUsage))
	f.wantLimited(r, "4/1s", timestamplog.Never)
	f.wantTimes(0, 0, 0, 0)
	large := f.with("3000/m", "100000/h")
	for range 2 {
		r = large.decide(use(large, timestamplog.MaxUsage-1))
		large.wantLimited(r, "3000/1m", timestamplog.Never)
		if r.States[0].Remaining != 0 || r.States[1].Remaining != 97_000 {
			t.Errorf("the states after the usage are %+v, want 0 and 97000 remaining", r.States)
		}
	}
	large.limit(1, "3000/1m", minute)
	if got := len(large.times()); got != 3000 {
		t.Errorf("the log has %d entries, want 3000", got)
	}
	whole := f.with("100000/h")
	whole.wantAllowed(whole.decide(use(whole, timestamplog.MaxUsage)))
	whole.limit(1, "100000/1h", hour)
}

func usageNothing(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	q := use(f, 5)
	q.Peek = true
	f.wantLimited(f.decide(q), "2/1s", timestamplog.Never)
	f.wantTimes()
	f.allow(2)
	f.wantLimited(f.at(100).decide(use(f, 1)), "2/1s", 1000)
	f.wantTimes(0, 0)
	ahead := f.with("2/s")
	ahead.at(200).allow(2)
	ahead.wantReservation(ahead.reserve("x", 1, minute), 1200)
	if r := ahead.at(300).decide(use(ahead, 1)); r.Allowed {
		t.Errorf("Decide: got %+v, want it refused while a reservation is ahead", r)
	}
	ahead.wantTimes(1200, 200, 200)
	empty := f.with()
	empty.wantAllowed(empty.decide(use(empty, timestamplog.MaxUsage)))
}

func usageNamed(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/s")
	q := use(f, 4)
	q.ID = "whole"
	f.wantAllowed(f.decide(q))
	if r := f.at(100).decide(q); !r.Replayed {
		t.Errorf("Decide again: got %+v, want it replayed", r)
	}
	q.ID = "part"
	for range 2 {
		if r := f.decide(q); r.Allowed || r.Replayed {
			t.Errorf("Decide: got %+v, want it refused", r)
		}
	}
	f.wantTimes(100, 0, 0, 0, 0)
}

func usageCombined(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "2/s"), "9/s")
	plain := a.with("9/s")
	a.allow(1)
	qa, qb := use(a, 3), use(b, 4)
	qb.ID = "x"
	for i := range int64(2) {
		results := a.at(100*i).decideCombined(qa, qb, plain.request(1))
		if results[0].Allowed || !results[1].Allowed || results[1].Replayed || !results[2].Allowed {
			t.Fatalf("DecideAll: got %+v, want only the first refused", results)
		}
	}
	a.wantTimes(0, 0)
	b.wantTimes(100, 100, 100, 100, 0, 0, 0, 0)
	plain.wantTimes()
	qb.Peek = true
	a.at(2000).decideCombined(qa, qb)
	a.wantTimes()
}

// counterUsage fills what a counter has left.
func counterUsage(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/s", "30/m")
	f.allow(1)
	left := f.detail(1)[0].Remaining
	r := f.at(100).decide(use(f, timestamplog.MaxUsage))
	if r.Allowed || r.RetryAt != timestamplog.Never || r.Boundary != 0 {
		t.Fatalf("Decide: got %+v, want it refused", r)
	}
	if now := f.detail(1)[0].Remaining; left > 0 && now >= left {
		t.Errorf("%d is left after the usage, want less than the %d before it", now, left)
	}
	f.fill(1)
	full := f.detail(1)
	q := use(f, 1)
	if r := f.decide(q); r.Allowed {
		t.Errorf("Decide of a full counter: got %+v, want it refused", r)
	}
	f.wantStates(f.detail(1), full...)
}
