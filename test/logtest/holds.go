package logtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// holdContracts are those of the log of amounts.
func holdContracts() []contract {
	return []contract{
		{"holds are settled once, at their own time, and expire by the log's clock", settlesOnce},
		{"open holds say who asked for them, also after they were renewed", saysSources},
		{"an open hold takes a place until it is settled or expires", takesPlaces},
		{"a refused check stores what it ended of expired holds", endsOnce},
		{"holds of several logs are taken together", holdsTogether},
		{"a rule of the calendar begins again with its period, and refuses until then", calendarPeriods},
		{"many callers who hold, settle and disappear never exceed a limit", manyHolders},
	}
}

// holding is a request that holds its cost for milliseconds under a number.
func (f *fixture) holding(cost int, milliseconds int64, number uint64) timestamplog.Request {
	q := f.request(cost)
	q.Hold, q.Value = milliseconds, uint64(algorithms.HoldTag(number, number%2 == 1))
	return q
}

// settle settles the hold of a number.
func (f *fixture) settle(number uint64, used int64) timestamplog.Settled {
	f.t.Helper()
	return f.end(timestamplog.Settlement{Request: f.holding(1, 1, number), Used: used})
}

func (f *fixture) end(m timestamplog.Settlement) timestamplog.Settled {
	f.t.Helper()
	settled, err := f.Log.Settle(f.t.Context(), m)
	if err != nil || settled.Now != f.Clock.NowMS() {
		f.t.Fatalf("Settle: %+v, %v", settled, err)
	}
	settled.Now = 0
	if settled.Expires > 0 {
		settled.Expires -= f.start
	}
	if settled.Was > 0 {
		settled.Was -= f.start
	}
	return settled
}

func (f *fixture) wantSettled(got, want timestamplog.Settled) {
	f.t.Helper()
	if got != want {
		f.t.Fatalf("at +%d: settled %+v, want %+v", f.Clock.NowMS()-f.start, got, want)
	}
}

// wantLeft fails the test unless a cost fits and one more does not.
func (f *fixture) wantLeft(cost int) {
	f.t.Helper()
	if states := f.detail(1); states[len(states)-1].Remaining != cost {
		f.t.Fatalf("at +%d: %d are left, want %d", f.Clock.NowMS()-f.start, states[len(states)-1].Remaining, cost)
	}
}

func settlesOnce(t *testing.T, h Harness) {
	f := newFixture(t, h, "1000/10s")
	settled := func(held, used, over int64, expires int64) timestamplog.Settled {
		return timestamplog.Settled{State: algorithms.HoldSettled, Held: held, Used: used, Over: over, Expires: expires}
	}
	f.wantAllowed(f.at(0).decide(f.holding(600, minute, 2)))
	f.wantAllowed(f.at(1000).decide(f.holding(400, minute, 4)))
	f.wantLimited0(f.at(2000).ask(1), 60_000) // the first hold expires
	f.wantSettled(f.settle(2, 100), settled(600, 100, 0, minute))
	f.wantLeft(500)
	again := settled(600, 100, 0, minute)
	again.Repeated = true
	f.wantSettled(f.at(3000).settle(2, 100), again)
	f.wantSettled(f.settle(2, 700), again) // the caller sees what was charged
	f.wantLeft(500)
	f.allow(500)
	f.wantSettled(f.at(4000).settle(4, 900), settled(400, 900, 500, minute+1000))
	f.wantLimited0(f.at(4000).ask(1), 13_000) // the overrun of 500 is remembered until the 500 at +3000 leave
	f.wantSettled(f.settle(6, 5), timestamplog.Settled{})
	// An even number keeps what it held when it expires, an odd one releases it.
	f.at(100_000)
	f.wantAllowed(f.decide(f.holding(300, 2000, 8)))
	f.wantAllowed(f.decide(f.holding(300, 2000, 9)))
	f.wantLeft(400)
	f.at(102_000).wantLeft(700)
	expired := timestamplog.Settled{State: algorithms.HoldExpired, Held: 300, Used: 350, Expires: 102_000}
	f.wantSettled(f.settle(8, 350), expired)
	f.wantLeft(650)
	f.wantSettled(f.settle(9, 350), expired)
	f.wantLeft(300)
	expired.Repeated = true
	f.wantSettled(f.settle(9, 350), expired)
	f.wantLeft(300)
	f.wantAllowed(f.at(103_000).decide(f.holding(300, 2000, 10)))
	renewed := f.end(timestamplog.Settlement{Request: f.holding(1, 1, 10), Extend: 5000})
	f.wantSettled(renewed, timestamplog.Settled{State: algorithms.HoldOpen, Held: 300, Expires: 108_000, Was: 105_000})
	f.at(107_999)
	if open, _, err := f.Log.Holds(t.Context(), f.id()); err != nil || !slices.Equal(open, []timestamplog.Hold{{Taken: f.start + 103_000, Expires: f.start + 108_000, Amount: 300}}) {
		t.Fatalf("Holds: %v, %v", open, err)
	}
	f.wantSettled(f.settle(10, 0), settled(300, 0, 0, 108_000)) // released: nothing is left behind
	f.at(113_000).wantLeft(1000)
}

// saysSources has a source that contains bytes of every kind, and one that is as long as one may be.
func saysSources(t *testing.T, h Harness) {
	f, other := pair(newFixture(t, h, "1000/10s"), "500/1m")
	take := func(number uint64, source string) {
		q := f.holding(10, 5000, number)
		q.Source = source
		f.wantAllowed(f.decide(q))
	}
	long := strings.Repeat("é", timestamplog.MaxSource/2)
	f.at(0)
	take(2, "gateway \x00\xff 7")
	take(4, "")
	f.allow(10) // a run beside the holds
	f.at(1000)
	take(6, long)
	take(6, "another that sends it again")
	a, b := f.holding(10, 5000, 8), other.holding(10, 5000, 8)
	a.Source, b.Source = "both", "both"
	for _, r := range f.decideCombined(a, b) {
		f.wantAllowed(r)
	}
	f.end(timestamplog.Settlement{Request: f.holding(1, 1, 2), Extend: 60_000})
	f.settle(4, 5)
	want := func(f *fixture, sources ...string) {
		t.Helper()
		open, _, err := f.Log.Holds(t.Context(), f.id())
		said := make([]string, len(open))
		for i, h := range open {
			said[i] = h.Source
		}
		if err != nil || !slices.Equal(said, sources) {
			t.Fatalf("at +%d: held by %q, %v, want %q", f.Clock.NowMS()-f.start, said, err, sources)
		}
	}
	want(f, "gateway \x00\xff 7", long, "both")
	want(other, "both")
	f.at(6000)
	f.allow(1) // the later two have expired
	want(f, "gateway \x00\xff 7")
	f.settle(2, 0)
	want(f)
}

// wantLimited0 is wantLimited without a boundary, which no counter has.
func (f *fixture) wantLimited0(r timestamplog.Result, retry int64) {
	f.t.Helper()
	if r.Allowed || r.RetryAt != f.start+retry || r.Boundary != 0 {
		f.t.Fatalf("at +%d: %s, want it limited until +%d", r.Now-f.start, f.describe(r), retry)
	}
}

func takesPlaces(t *testing.T, h Harness) {
	f := newFixture(t, h, "2 concurrent", "100/1m")
	f.wantAllowed(f.at(0).decide(f.holding(1, 5000, 1)))
	f.wantAllowed(f.at(100).decide(f.holding(1, 3000, 3)))
	r := f.at(200).decide(f.holding(1, 1000, 5))
	f.wantLimited0(r, 3100)
	if rule := f.policy.Rules[r.Rule]; !rule.IsConcurrent() {
		t.Errorf("refused by %s", rule)
	}
	f.allow(1) // a request that holds nothing needs no place
	f.wantSettled(f.settle(1, algorithms.AsHeld), timestamplog.Settled{State: algorithms.HoldSettled, Held: 1, Used: 1, Expires: 5000})
	f.wantAllowed(f.decide(f.holding(1, 1000, 5)))
	f.wantLimited0(f.decide(f.holding(1, 1000, 7)), 1200)
	f.wantAllowed(f.at(1200).decide(f.holding(1, 1000, 7))) // the holder of 5 has disappeared
}

// endsOnce reads what is stored by Charges, which ends nothing.
func endsOnce(t *testing.T, h Harness) {
	f := newFixture(t, h, "1000/1h")
	f.wantAllowed(f.at(0).decide(f.holding(300, 5000, 2)))
	f.wantAllowed(f.at(100).decide(f.holding(300, 5000, 4)))
	f.wantAllowed(f.at(200).decide(f.holding(300, hour, 6)))
	f.at(1000).allow(100)
	wantStored := func(amounts ...int64) {
		t.Helper()
		charges, _, err := f.Log.Charges(t.Context(), f.id(), hour)
		stored := make([]int64, len(charges))
		for i, c := range charges {
			stored[i] = c.Points
		}
		if err != nil || !slices.Equal(stored, amounts) {
			t.Fatalf("at +%d: %v is stored, %v, want %v", f.Clock.NowMS()-f.start, stored, err, amounts)
		}
	}
	q := f.request(1)
	q.Peek = true
	f.wantLimited0(f.at(6000).decide(q), hour)
	wantStored(100) // a peek writes nothing
	f.wantLimited0(f.ask(1), hour)
	wantStored(100, 300, 300)
	f.wantLimited0(f.ask(1), hour)
	wantStored(100, 300, 300)
	f.wantSettled(f.at(hour+150).settle(8, 1), timestamplog.Settled{})
	wantStored(100)
}

// calendarPeriods counts in days of a time zone in which a day begins at another time than in UTC.
func calendarPeriods(t *testing.T, h Harness) {
	f := newFixture(t, h, "1000/1h", "100/calendar-day")
	f.policy.Rules = f.policy.Rules.InZone("Asia/Kolkata")
	calendar, err := algorithms.CalendarOf(algorithms.CalendarDay, "Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	_, midnight := calendar.Period(f.start)
	midnight -= f.start
	f.at(midnight - 2000).allow(60)
	f.wantAllowed(f.decide(f.holding(40, 5000, 2)))
	f.wantLimited0(f.at(midnight-1).ask(1), midnight)
	f.at(midnight).wantLeft(60) // an open hold counts in the new day too
	f.wantSettled(f.settle(2, 10), timestamplog.Settled{State: algorithms.HoldSettled, Held: 40, Used: 10, Expires: midnight + 3000})
	f.wantLeft(100) // and what was used of it to the day in which it was taken
	f.allow(100)
	_, next := calendar.Period(f.start + midnight)
	f.wantLimited0(f.at(midnight+1000).ask(1), next-f.start)
	f.at(next - f.start).allow(100)
}

func holdsTogether(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "100/1m"), "50/1m")
	for _, r := range a.decideCombined(a.holding(40, minute, 2), b.holding(40, minute, 2)) {
		a.wantAllowed(r)
	}
	results := a.decideCombined(a.holding(40, minute, 4), b.holding(40, minute, 4))
	if b.wantLimited0(results[1], 60_000); !results[0].Allowed {
		t.Fatal("the log with room refuses")
	}
	a.wantLeft(60)
	b.wantLeft(10)
	for _, f := range []*fixture{a, b} {
		f.wantSettled(f.settle(2, 10), timestamplog.Settled{State: algorithms.HoldSettled, Held: 40, Used: 10, Expires: 60_000})
	}
	a.wantLeft(90)
	b.wantLeft(40)
}

// manyHolders lets callers hold, settle with another amount, or disappear. The sum of what is charged and
// of what is held is never above the limit, and after the longest hold all places are free.
func manyHolders(t *testing.T, h Harness) {
	f := newFixture(t, h, "8 concurrent", "1000/1h")
	var mu sync.Mutex
	open, used := 0, 0 // as the callers know it: a lower bound
	var callers sync.WaitGroup
	for caller := range uint64(16) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(caller, 1)) //nolint:gosec // a test
			for i := range uint64(20) {
				estimate := 1 + random.IntN(30)
				q := f.holding(estimate, minute, (caller*1000+i)*2)
				results := make([]timestamplog.Result, 1)
				f.Log.Decide(t.Context(), []timestamplog.Request{q}, results)
				if results[0].Err != nil {
					t.Error(results[0].Err)
					return
				}
				if !results[0].Allowed {
					continue
				}
				mu.Lock()
				open, used = open+1, used+estimate
				if open > 8 || used > 1000 {
					t.Errorf("%d are open at once and %d charged or held", open, used)
				}
				if random.IntN(8) == 0 { // it disappears: its estimate stays
					open--
					mu.Unlock()
					continue
				}
				spent := random.IntN(estimate + 1)
				open, used = open-1, used-estimate+spent // before: the log may free it at once
				mu.Unlock()
				if s, err := f.Log.Settle(t.Context(), timestamplog.Settlement{Request: q, Used: int64(spent)}); err != nil || s.State != algorithms.HoldSettled || s.Over != 0 {
					t.Error(fmt.Errorf("settled %+v: %w", s, err))
				}
			}
		})
	}
	callers.Wait()
	f.wantLeft(1000 - used)
	f.wait(2 * time.Minute)
	for i := range uint64(8) {
		if r := f.decide(f.holding(1, minute, 1_000_000+i*2)); !r.Allowed && used < 990 {
			t.Errorf("place %d is lost", i)
		}
	}
}
