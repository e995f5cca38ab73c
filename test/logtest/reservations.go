package logtest

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func reservations() []contract {
	return []contract{
		{"a reservation is now where the stack allows it now", reservationNow},
		{"a reservation is the latest of the newest entry and every boundary plus its window", reservationLatest},
		{"reservations come in the order in which they were asked for", reservationsInOrder},
		{"a request that would not wait long enough is refused until its reservation is near enough", reservationTooFar},
		{"a request that does not wait is refused while a reservation lies ahead, though there is room", reservationAhead},
		{"a request that waits only for reservations names the last rule and no boundary", reservationAheadNamed},
		{"a reservation counts in every window around it as any request does", reservationCounts},
		{"a cost has one reservation, and is reserved whole", reservationOfCost},
		{"a rule of 0 has no reservation", reservationNever},
		{"a peek returns the reservation and makes none", reservationPeek},
		{"what remains is reported at the newest reservation", reservationStates},
		{"a log lists the reservations that lie ahead", reservationTimes},
		{"a log expires a window after its newest reservation", reservationExpires},
		{"the cost of the reservations ahead is at most MaxReserved", reservationsBounded},
		{"trimming keeps the reservations on top of as many entries as before", reservationTrims},
		{"a reset forgets the reservations", reservationResets},
		{"a clock that steps back a millisecond leaves reservations as far ahead as they were", reservationBackABit},
		{"a clock that steps back further than MaxWait shifts reservations to within it", reservationBackFar},
		{"a reservation cancelled frees room for the next", cancelled},
		{"a reservation cancelled from the middle leaves those after it", cancelledMiddle},
		{"a reservation cancelled never lets more than the limit into a window", cancelledTrimmed},
		{"a reservation cancelled twice frees room once", cancelledTwice},
		{"a reservation whose time has come frees no room", cancelledLate},
		{"cancelling an unknown reservation frees no room", cancelledUnknown},
		{"a cancelled ID may be charged again, and is then cancelled only with its new cost", cancelledThenReserved},
		{"many callers get reservations of their own, and no window exceeds its limit", reservationsManyCallers},
	}
}

// reserve decides a request with a MaxWait in milliseconds and an ID.
func (f *fixture) reserve(id string, cost int, maxWait int64) timestamplog.Result {
	f.t.Helper()
	return f.decide(f.waiting(id, cost, maxWait))
}

func (f *fixture) waiting(id string, cost int, maxWait int64) timestamplog.Request {
	q := f.request(cost)
	q.ID, q.MaxWait = id, maxWait
	return q
}

// cancelReservation cancels the reservation of an ID at milliseconds after the test's
// beginning.
func (f *fixture) cancelReservation(id string, at int64, cost int) bool {
	f.t.Helper()
	freed, err := f.Log.Cancel(f.t.Context(), timestamplog.Reservation{LogID: f.id(), At: f.start + at, Cost: cost, ID: id})
	if err != nil {
		f.t.Fatalf("Cancel: %v", err)
	}
	return freed
}

func (f *fixture) wantCancelled(want bool, id string, at int64, cost int) {
	f.t.Helper()
	if f.cancelReservation(id, at, cost) != want {
		f.t.Fatalf("at +%d: Cancel of the reservation of %q at +%d: got %v, want %v", f.Clock.NowMS()-f.start, id, at, !want, want)
	}
}

// wantBehindReservations fails the test unless r is limited only by reservations ahead.
func (f *fixture) wantBehindReservations(r timestamplog.Result, retry int64) {
	f.t.Helper()
	if r.Allowed || r.RetryAt != f.start+retry || r.Rule != len(f.policy.Rules)-1 || r.Boundary != 0 {
		f.t.Fatalf("at +%d: %s, want it refused until +%d by the reservations ahead", r.Now-f.start, f.describe(r), retry)
	}
}

func reservationNow(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	f.wantReservation(f.reserve("a", 1, 5000), 0)
	f.wantReservation(f.at(10).reserve("b", 1, 5000), 10)
	f.wantTimes(10, 0)
}

func reservationLatest(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s", "3/10s")
	f.wantReservation(f.reserve("a", 1, minute), 0)
	f.wantReservation(f.at(100).reserve("b", 1, minute), 1000)
	f.wantReservation(f.at(200).reserve("c", 1, minute), 2000)
	f.wantReservation(f.at(300).reserve("d", 1, minute), 10_000)
	f.wantReservation(f.at(400).reserve("e", 1, minute), 11_000)
	f.wantTimes(11_000, 10_000, 2000, 1000, 0)
}

func reservationsInOrder(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	f.allow(2)
	f.wantReservation(f.reserve("two", 2, 5000), 1000)
	// One more fits now, but its reservation comes after the one that was asked for first.
	f.wantReservation(f.at(1).reserve("one", 1, 5000), 1000)
	f.wantReservation(f.at(2).reserve("next", 1, 5000), 2000)
}

func reservationTooFar(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	r := f.reserve("a", 1, 4000)
	if r.Allowed || r.RetryAt != f.start+6000 || r.Boundary != f.start || r.Rule != 0 {
		t.Fatalf("got %+v, want it refused until its reservation at +10000 is 4 s ahead", r)
	}
	if r := f.at(5999).reserve("a", 1, 4000); r.Allowed || r.RetryAt != f.start+6000 {
		t.Fatalf("got %+v, want it refused until +6000", r)
	}
	f.wantTimes(0)
	f.wantReservation(f.at(6000).reserve("a", 1, 4000), 10_000)
}

func reservationAhead(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	f.allow(3)
	f.wantReservation(f.at(900).reserve("a", 1, 1000), 1000)
	f.at(999).limit(1, "3/1s", 1000)
	f.at(1000).allow(2)
	f.limit(1, "3/1s", 2000)
}

func reservationAheadNamed(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s", "9/2s")
	f.allow(3)
	f.wantReservation(f.reserve("a", 2, 1000), 1000)
	f.wantReservation(f.reserve("b", 1, 1000), 1000)
	f.wantCancelled(true, "b", 1000, 1)
	f.wantReservation(f.at(500).reserve("c", 1, 1000), 1000)
	f.wantCancelled(true, "c", 1000, 1)
	f.change(f.policy.Retention, "30/s", "90/2s")
	f.wantBehindReservations(f.ask(1), 1000)
	f.at(1000).allow(1)
}

func reservationCounts(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s", "4/10s")
	f.allow(2)
	f.wantReservation(f.reserve("a", 2, 1000), 1000)
	f.at(1999).limit(1, "4/10s", 10_000)
	f.at(10_000).allow(2)
	if r := f.at(10_500).ask(1); r.Allowed || r.RetryAt != f.start+11_000 {
		t.Errorf("got %+v, want it refused until +11000, when both rules have room", r)
	}
	f.at(11_000).allow(2)
}

func reservationOfCost(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/s")
	f.allow(3)
	f.wantReservation(f.at(100).reserve("a", 4, 5000), 1000)
	f.wantReservation(f.at(100).reserve("b", 2, 5000), 2000)
	f.wantTimes(2000, 2000, 1000, 1000, 1000, 1000, 0, 0, 0)
}

func reservationNever(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/s", "0/m")
	f.wantLimited(f.reserve("a", 1, timestamplog.MaxWait), "0/1m", timestamplog.Never)
	f.wantTimes()
}

func reservationPeek(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s")
	f.allow(1)
	q := f.waiting("", 1, 5000)
	q.Peek = true
	for range 3 {
		f.wantReservation(f.decide(q), 1000)
	}
	f.wantTimes(0)
}

func reservationStates(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s", "5/10s")
	f.allow(2)
	q := f.waiting("a", 1, 5000)
	q.Detail = true
	r := f.at(400).decide(q)
	f.wantReservation(r, 1000)
	f.wantStates(r.States, state(1, 600), state(2, 600))
	f.wantStates(f.at(500).detail(2), state(1, 1500), state(2, 500))
	f.wantStates(f.at(1000).detail(1), state(1, 0), state(2, 0))
}

func reservationTimes(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s")
	for i, id := range []string{"a", "b", "c"} {
		f.wantReservation(f.at(int64(i)).reserve(id, 1, 5000), int64(i)*1000)
	}
	f.wantTimes(2000, 1000, 0)
	if got := f.timesOf(f.id(), 1); len(got) != 1 || got[0] != 2000 {
		t.Errorf("Timestamps with limit 1: got %v, want 2000", got)
	}
}

func reservationExpires(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.at(19_999).limit(1, "1/10s", 20_000)
	f.wantTimes(10_000)
	f.at(20_000).allow(1)
	f.wantTimes(20_000)
}

func reservationsBounded(t *testing.T, h Harness) {
	f := newFixture(t, h, "1000/s")
	f.allow(1000)
	for i := range int64(timestamplog.MaxReserved / 1000) {
		f.wantReservation(f.reserve(fmt.Sprint("id ", i), 1000, timestamplog.MaxWait), (i+1)*1000)
	}
	f.wantBehindReservations(f.reserve("one too many", 1, timestamplog.MaxWait), 1000)
	f.wantBehindReservations(f.at(999).reserve("one too many", 1000, timestamplog.MaxWait), 1000)
	f.wantReservation(f.at(1000).reserve("a", 1, timestamplog.MaxWait), 11_000)
	f.wantBehindReservations(f.reserve("a thousand", 1000, timestamplog.MaxWait), 2000)
	f.wantReservation(f.reserve("the rest", 999, timestamplog.MaxWait), 11_000)
	// A request whose reservation would be now does not count as one ahead.
	f.at(12 * second).allow(1000)
}

func reservationTrims(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/10s")
	f.allow(1)
	f.at(1000).allow(1)
	f.wantReservation(f.at(2000).reserve("a", 1, minute), 10_000)
	f.wantReservation(f.at(2000).reserve("b", 1, minute), 11_000)
	f.wantReservation(f.at(2000).reserve("c", 1, minute), 20_000)
	f.wantTimes(20_000, 11_000, 10_000, 1000, 0)
	f.at(30_000).allow(1)
	f.wantTimes(30_000)
}

func reservationResets(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	if !f.reset() {
		t.Error("Reset returns false, want true")
	}
	f.allow(1)
	f.wantCancelled(false, "a", 10_000, 1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
}

func reservationBackABit(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.at(hour).allow(1)
	f.wantReservation(f.reserve("a", 1, minute), hour+10_000)
	f.wantReservation(f.reserve("b", 1, minute), hour+20_000)
	f.at(hour-1).limit(1, "1/10s", hour+30_000-1)
	f.wantTimes(hour+20_000-1, hour+10_000-1, hour-1)
	again := f.reserve("b", 1, minute)
	if f.wantReservation(again, hour+20_000-1); !again.Replayed {
		t.Errorf("Decide(b again): got %+v, want it replayed", again)
	}
	f.wantCancelled(false, "b", hour+20_000, 1)
	f.wantCancelled(true, "b", hour+20_000-1, 1)
}

func reservationBackFar(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.at(3 * hour).allow(1)
	f.wantReservation(f.reserve("a", 1, minute), 3*hour+10_000)
	f.at(0)
	f.wantReservation(f.reserve("b", 1, minute), 20_000)
	f.wantTimes(20_000, 10_000, 0)
}

func cancelled(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	f.wantReservation(f.at(1000).reserve("a", 1, minute), 10_000)
	f.wantReservation(f.at(1000).reserve("b", 1, minute), 20_000)
	f.wantCancelled(true, "b", 20_000, 1)
	f.wantTimes(10_000, 0)
	f.wantReservation(f.at(1500).reserve("c", 1, minute), 20_000)
	f.wantCancelled(true, "c", 20_000, 1)
	f.wantCancelled(true, "a", 10_000, 1)
	f.at(9999).limit(1, "1/10s", 10_000)
	f.at(10_000).allow(1)
}

func cancelledMiddle(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/10s")
	f.allow(2)
	f.wantReservation(f.reserve("a", 2, minute), 10_000)
	f.wantReservation(f.reserve("b", 2, minute), 20_000)
	f.wantCancelled(true, "a", 10_000, 2)
	f.wantTimes(20_000, 20_000, 0, 0)
	f.wantReservation(f.reserve("c", 1, minute), 30_000)
}

// With 1/10s, a request at 0 and reservations at 10 and 20: were entries trimmed by
// those ahead, cancelling one would free the room of the one at 0.
func cancelledTrimmed(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.allow(1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.wantReservation(f.reserve("b", 1, minute), 20_000)
	f.wantCancelled(true, "b", 20_000, 1)
	f.at(2000).limit(1, "1/10s", 20_000)
	f.wantCancelled(true, "a", 10_000, 1)
	f.limit(1, "1/10s", 10_000)
}

func cancelledTwice(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/10s")
	f.allow(2)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.wantReservation(f.reserve("b", 1, minute), 10_000)
	f.wantCancelled(true, "a", 10_000, 1)
	f.wantCancelled(false, "a", 10_000, 1)
	f.wantTimes(10_000, 0, 0)
}

func cancelledLate(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.wantReservation(f.reserve("now", 1, minute), 0)
	f.wantCancelled(false, "now", 0, 1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.at(10_000).wantCancelled(false, "a", 10_000, 1)
	f.limit(1, "1/10s", 20_000)
}

func cancelledUnknown(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/10s")
	f.wantCancelled(false, "a", 10_000, 1)
	f.allow(1)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.wantCancelled(false, "b", 10_000, 1)
	f.wantCancelled(false, "a", 10_001, 1)
	f.wantCancelled(false, "a", 10_000, 2)
	other := f.forKey("ip:203.0.113.8")
	other.wantCancelled(false, "a", 10_000, 1)
	f.wantTimes(10_000, 0)
}

func cancelledThenReserved(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/10s")
	f.allow(3)
	f.wantReservation(f.reserve("a", 2, minute), 10_000)
	f.wantCancelled(true, "a", 10_000, 2)
	f.wantReservation(f.reserve("a", 1, minute), 10_000)
	f.wantReservation(f.reserve("b", 1, minute), 10_000)
	f.wantCancelled(false, "a", 10_000, 2)
	f.wantTimes(10_000, 10_000, 0, 0, 0)
	f.wantCancelled(true, "a", 10_000, 1)
}

// Requests that come at one instant get different reservations, the earliest that fit.
func reservationsManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/10ms", "5/100ms")
	const each = 6
	results := make([]timestamplog.Result, callers*each)
	concurrently(func(caller int) {
		for i := range each {
			n := caller*each + i
			results[n] = f.decideInGoroutine(f.waiting(fmt.Sprint("id ", n), 1, timestamplog.MaxWait))
		}
	})
	want := map[int64]int{}
	for n := range results {
		inWindow := n % 5
		want[f.start+int64(n/5)*100+int64(inWindow/2)*10]++
	}
	for n, r := range results {
		if want[r.ReservedAt]--; !r.Allowed || want[r.ReservedAt] < 0 {
			t.Fatalf("request %d: got %+v, want one of the computed reservations, given to no more than fit", n, r)
		}
	}
}
