package logtest

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func ids() []contract {
	return []contract{
		{"a repeated request gets its earlier answer and is charged once", idAgain},
		{"a reservation that is asked for again is the same reservation", idAgainReservation},
		{"a reservation that is asked for again with another cost keeps its cost and is cancelled by it", idAgainWithAnotherCost},
		{"an ID is known for its lifetime after its reservation and no longer", idLifetime},
		{"an ID is known though its log has expired", idOutlivesLog},
		{"a refused request leaves no ID", idRefused},
		{"a peek neither leaves an ID nor looks for one", idPeek},
		{"an ID belongs to one log", idOfOneLog},
		{"a request repeated in one batch is charged once", idInBatch},
		{"a request that many callers send at once is charged once", idManyCallers},
	}
}

func (f *fixture) named(id string) timestamplog.Request { return f.waiting(id, 1, 0) }

func (f *fixture) wantReplayed(r timestamplog.Result, reservation int64) {
	f.t.Helper()
	if f.wantReservation(r, reservation); !r.Replayed {
		f.t.Fatalf("Decide at +%d: the request was charged, want it replayed", r.Now-f.start)
	}
}

func (f *fixture) wantCharged(r timestamplog.Result) {
	f.t.Helper()
	if f.wantAllowed(r); r.Replayed {
		f.t.Fatalf("Decide at +%d: the request was replayed, want it charged", r.Now-f.start)
	}
}

func idAgain(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.wantCharged(f.decide(f.named("a")))
	q := f.named("a")
	q.Detail = true
	r := f.at(3000).decide(q)
	f.wantReplayed(r, 0)
	f.wantStates(r.States, state(0, 7000))
	f.limit(1, "1/10s", 10_000)
	f.wantTimes(0)
}

func idAgainReservation(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.wantReservation(f.reserve("b", 1, minute), 20_000)
	f.wantReplayed(f.at(4000).reserve("a", 1, minute), 10_000)
	f.wantReplayed(f.at(12_000).reserve("a", 1, minute), 10_000)
	f.wantTimes(20_000, 10_000)
}

func idAgainWithAnotherCost(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/10s")
	f.allow(3)
	reserved := f.reserve("a", 2, minute)
	f.wantReservation(reserved, 10_000)
	again := f.reserve("a", 1, minute)
	f.wantReplayed(again, 10_000)
	if again.ReplayedCost != 2 || reserved.ReplayedCost != 0 {
		t.Fatalf("ReplayedCost: got %d at first and %d again, want 0 and 2", reserved.ReplayedCost, again.ReplayedCost)
	}
	f.wantCancelled(true, "a", 10_000, again.ReplayedCost)
}

func idLifetime(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/h")
	f.wantCharged(f.decide(f.named("a")))
	f.wantReplayed(f.at(timestamplog.IDLifetime-1).decide(f.named("a")), 0)
	f.wantCharged(f.at(timestamplog.IDLifetime).decide(f.named("a")))
	f.wantReplayed(f.at(2*timestamplog.IDLifetime-1).decide(f.named("a")), timestamplog.IDLifetime)
	g := f.with("1/30s")
	g.at(0).allow(1)
	g.wantReservation(g.reserve("a", 1, minute), 30*second)
	g.wantReplayed(g.at(30*second+timestamplog.IDLifetime-1).reserve("a", 1, minute), 30*second)
	g.wantCharged(g.at(30*second+timestamplog.IDLifetime).reserve("a", 1, minute))
}

func idOutlivesLog(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s")
	f.wantCharged(f.decide(f.named("a")))
	f.wantReplayed(f.at(2000).decide(f.named("a")), 0)
	f.allow(1)
}

func idRefused(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s")
	f.allow(1)
	f.wantLimited(f.at(500).decide(f.named("a")), "1/1s", 1000)
	f.wantCharged(f.at(1000).decide(f.named("a")))
}

func idPeek(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s")
	peek := f.named("a")
	peek.Peek = true
	f.wantCharged(f.decide(peek))
	f.wantCharged(f.decide(f.named("a")))
	f.wantLimited(f.decide(peek), "1/1s", 1000)
}

func idOfOneLog(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	for _, g := range []*fixture{f, f.forKey("ip:203.0.113.8"), f.with("2/m")} {
		g.wantCharged(g.decide(g.named("a")))
		g.wantReplayed(g.decide(g.named("a")), 0)
		g.wantCharged(g.decide(g.named("A")))
	}
}

func idInBatch(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/m")
	results := f.decideAll([]timestamplog.Request{f.named("a"), f.named("a"), f.named("b"), f.named("a")})
	for i, again := range []bool{false, true, false, true} {
		if f.wantAllowed(results[i]); results[i].Replayed != again {
			t.Errorf("request %d: got %+v, want Replayed %v", i, results[i], again)
		}
	}
	f.wantTimes(0, 0)
}

func idManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	results := make([]timestamplog.Result, callers)
	concurrently(func(caller int) { results[caller] = f.decideInGoroutine(f.waiting("a", 1, minute)) })
	charged := 0
	for _, r := range results {
		f.wantReservation(r, 10_000)
		if !r.Replayed {
			charged++
		}
	}
	if charged != 1 {
		t.Errorf("the request was charged %d times, want once", charged)
	}
	f.wantTimes(10_000, 0)
}
