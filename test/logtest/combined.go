package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func severalKeys() []contract {
	return []contract{
		{"several requests are all charged where all are allowed", combinedAll},
		{"several requests charge nothing where one is refused, and each is answered by its own rules", combinedNone},
		{"several requests get one common reservation, the latest of their own", combinedReservation},
		{"the smallest MaxWait applies to all", combinedSmallestWait},
		{"a peek among several requests makes all of them peeks", combinedPeek},
		{"an uncharged request among several refuses all and is charged nothing", combinedUncharged},
		{"several repeated requests get their earlier answers", combinedReplayed},
		{"a new request beside a repeated one gets no earlier reservation", combinedPartlyReplayed},
		{"several requests mix policies, costs and empty stacks", combinedMixed},
		{"a reservation that several have is cancelled one by one", combinedCancelled},
		{"a context that has ended leaves several requests uncharged or charged once", combinedEnded},
		{"many callers of several keys in any order charge all of them or none", combinedManyCallers},
	}
}

// pair is one key under two policies, whose logs any Log can decide together.
func pair(f *fixture, stack ...string) (a, b *fixture) { return f, f.with(stack...) }

func combinedAll(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "2/s"), "3/s")
	for _, r := range a.decideCombined(a.request(2), b.request(1)) {
		a.wantAllowed(r)
	}
	a.wantTimes(0, 0)
	b.wantTimes(0)
}

func combinedNone(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "2/s"), "5/s")
	a.allow(2)
	q := b.request(3)
	q.Detail = true
	for range 5 {
		results := a.at(400).decideCombined(a.request(1), q)
		a.wantLimited(results[0], "2/1s", 1000)
		b.wantAllowed(results[1])
		b.wantStates(results[1].States, state(5, 0))
	}
	b.wantTimes()
}

func combinedReservation(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/s"), "1/10s")
	a.allow(1)
	b.allow(1)
	qa, qb := a.waiting("x", 1, minute), b.waiting("x", 1, minute)
	qa.Detail, qb.Detail = true, true
	results := a.at(500).decideCombined(qa, qb)
	a.wantReservation(results[0], 10_000)
	b.wantReservation(results[1], 10_000)
	a.wantStates(results[0].States, state(0, 10_500))
	b.wantStates(results[1].States, state(0, 19_500))
	a.wantTimes(10_000, 0)
	b.wantTimes(10_000, 0)
	a.wantLimited(a.ask(1), "1/1s", 11_000)
}

func combinedSmallestWait(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/s"), "1/10s")
	a.allow(1)
	b.allow(1)
	results := a.at(500).decideCombined(a.waiting("x", 1, minute), b.waiting("x", 1, 5000))
	a.wantReservation(results[0], 1000)
	if r := results[1]; r.Allowed || r.RetryAt != b.start+5000 {
		t.Errorf("DecideAll: got %+v, want it refused until its reservation is 5 s ahead", r)
	}
	results = a.decideCombined(a.waiting("x", 1, minute), b.request(1))
	a.wantLimited(results[0], "1/1s", 1000)
	b.wantLimited(results[1], "1/10s", 10_000)
	a.wantTimes(0)
	b.wantTimes(0)
}

func combinedPeek(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/s"), "1/10s")
	b.allow(1)
	qa, qb := a.waiting("", 1, minute), b.waiting("", 1, minute)
	qb.Peek = true
	results := a.at(100).decideCombined(qa, qb)
	a.wantReservation(results[0], 10_000)
	b.wantReservation(results[1], 10_000)
	a.wantTimes()
	b.wantTimes(0)
}

func combinedUncharged(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "2/s"), "1/10s")
	q := b.request(1)
	q.Uncharged, q.Detail = true, true
	results := a.decideCombined(a.request(1), q)
	a.wantAllowed(results[0])
	b.wantAllowed(results[1])
	b.wantStates(results[1].States, state(1, 0))
	a.wantTimes(0)
	b.wantTimes()

	b.allow(1)
	results = a.at(100).decideCombined(q, a.request(1))
	b.wantLimited(results[0], "1/10s", 10_000)
	a.wantAllowed(results[1])
	a.wantTimes(0)
	b.wantTimes(0)

	// Usage that others refuse is charged; an uncharged request is not.
	results = a.decideCombined(q, use(a, 1))
	b.wantLimited(results[0], "1/10s", 10_000)
	a.wantTimes(100, 0)
	b.wantTimes(0)

	// The wait is the longest of all logs.
	qa, qb := a.waiting("x", 1, minute), b.waiting("", 1, minute)
	qb.Uncharged = true
	results = a.decideCombined(qa, qb)
	a.wantReservation(results[0], 10_000)
	a.wantTimes(10_000, 100, 0)
	b.wantTimes(0)
}

func combinedReplayed(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/s"), "1/10s")
	b.allow(1)
	for i := range int64(3) {
		results := a.at(i*100).decideCombined(a.waiting("x", 1, minute), b.waiting("x", 1, minute))
		a.wantReservation(results[0], 10_000)
		b.wantReservation(results[1], 10_000)
		if again := i > 0; results[0].Replayed != again || results[1].Replayed != again {
			t.Fatalf("DecideAll, call %d: got %+v, want Replayed %v", i+1, results, again)
		}
	}
	a.wantTimes(10_000)
	b.wantTimes(10_000, 0)
}

func combinedPartlyReplayed(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/s"), "1/10s")
	b.allow(1)
	b.wantReservation(b.decide(b.waiting("x", 1, minute)), 10_000)
	results := a.at(100).decideCombined(a.waiting("x", 1, minute), b.waiting("x", 1, minute))
	a.wantReservation(results[0], 10_000)
	b.wantReservation(results[1], 10_000)
	if results[0].Replayed || !results[1].Replayed {
		t.Fatalf("DecideAll: got %+v, want only the second replayed", results)
	}
	a.wantTimes(10_000)
	b.wantTimes(10_000, 0)
}

func combinedMixed(t *testing.T, h Harness) {
	f := newFixture(t, h, "9/s")
	var requests []timestamplog.Request
	fixtures := make([]*fixture, timestamplog.MaxCombined)
	for i := range fixtures {
		fixtures[i] = f.with("9/s", fmt.Sprintf("%d/m", 10+i))
		if i%5 == 4 {
			fixtures[i] = f.with()
		}
		requests = append(requests, fixtures[i].request(1+i%3))
	}
	for i, r := range f.decideCombined(requests...) {
		fixtures[i].wantAllowed(r)
		want := 1 + i%3
		if i%5 == 4 {
			want = 0
		}
		if got := len(fixtures[i].times()); got != want {
			t.Errorf("request %d: the log has %d entries, want %d", i, got, want)
		}
	}
}

func combinedCancelled(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/s"), "1/10s")
	b.allow(1)
	a.decideCombined(a.waiting("x", 1, minute), b.waiting("x", 1, minute))
	a.wantCancelled(true, "x", 10_000, 1)
	a.wantCancelled(false, "x", 10_000, 1)
	a.wantTimes()
	b.wantTimes(10_000, 0)
	b.wantCancelled(true, "x", 10_000, 1)
}

func combinedEnded(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "9/s"), "9/s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := a.Log.DecideAll(ctx, []timestamplog.Request{a.request(1), b.request(1)}, make([]timestamplog.Result, 2))
	if !errors.Is(err, context.Canceled) && !errors.Is(err, timestamplog.ErrUnreachable) {
		t.Errorf("DecideAll with an ended context: error %v, want context.Canceled or ErrUnreachable", err)
	}
	if x, y := len(a.times()), len(b.times()); x != y || x > 1 {
		t.Errorf("the logs have %d and %d entries, want the same number, at most 1", x, y)
	}
}

func combinedManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "30/m")
	logs := make([]*fixture, 6)
	for i := range logs {
		logs[i] = f.with("30/m")
	}
	allowed := make([]int, callers)
	concurrently(func(caller int) {
		for i := range 10 {
			requests := make([]timestamplog.Request, len(logs))
			for n := range requests {
				requests[n] = logs[(n*(1+caller%2*4)+caller+i)%len(logs)].request(1)
			}
			results := make([]timestamplog.Result, len(requests))
			if err := f.Log.DecideAll(t.Context(), requests, results); err != nil {
				t.Errorf("DecideAll: %v", err)
			}
			if results[0].Allowed {
				allowed[caller]++
			}
			for _, r := range results {
				if r.Allowed != results[0].Allowed {
					t.Errorf("DecideAll: got %+v, want all allowed or all refused", results)
				}
			}
		}
	})
	total := 0
	for _, n := range allowed {
		total += n
	}
	for _, log := range logs {
		if got := len(log.times()); got != 30 || total != 30 {
			t.Errorf("%d requests were allowed and the log has %d entries, want 30 of both", total, got)
		}
	}
}
