package logtest

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// charges are the contracts of charges that are cancelled after their time.
func charges() []contract {
	return []contract{
		{"a charge cancelled while it counts frees its room, once", chargeCancelled},
		{"a charge cancelled below a reservation leaves the reservation", chargeBelowReservation},
		{"a charge that is charged again under its ID is cancelled by its own time", chargeAgain},
		{"a reservation that was cancelled and is made again with another cost is not cancelled by its first cost", chargeAgainWithAnotherCost},
		{"many callers who cancel what they were charged never exceed the limit", chargesManyCallers},
	}
}

// amountCharges are the same of the log of amounts.
func amountCharges() []contract {
	return []contract{
		{"an amount cancelled while it counts frees its room, once", amountCancelled},
		{"an amount cancelled beside holds leaves the holds", amountBesideHolds},
		{"many callers who cancel what they were charged never exceed the limit", chargesManyCallers},
	}
}

// chargeID decides a request with an ID, which must be allowed now.
func (f *fixture) chargeID(id string, cost int) *fixture {
	f.t.Helper()
	q := f.request(cost)
	q.ID = id
	f.wantAllowed(f.decide(q))
	return f
}

// chargeOf is what the request of an ID was charged at milliseconds after the test's beginning.
func (f *fixture) chargeOf(id string, at int64, cost int) timestamplog.Reservation {
	return timestamplog.Reservation{LogID: f.id(), At: f.start + at, Cost: cost, ID: id, Counts: f.policy.Rules.LongestWindow().Milliseconds()}
}

func (f *fixture) wantChargeCancelled(want bool, id string, at int64, cost int) {
	f.t.Helper()
	freed, err := f.Log.Cancel(f.t.Context(), f.chargeOf(id, at, cost))
	if err != nil || freed != want {
		f.t.Fatalf("at +%d: Cancel of the charge of %q at +%d: got %v, %v, want %v", f.Clock.NowMS()-f.start, id, at, freed, err, want)
	}
}

func chargeCancelled(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/10s")
	f.chargeID("a", 1).at(1000).chargeID("b", 2).at(2000).chargeID("c", 2)
	f.at(3000).limit(1, "5/10s", 10_000)
	f.wantCancelled(false, "b", 1000, 2) // a reservation, whose time has come
	f.wantChargeCancelled(false, "b", 1001, 2)
	f.forKey("ip:203.0.113.8").wantChargeCancelled(false, "b", 1000, 2)
	f.wantChargeCancelled(true, "b", 1000, 2)
	f.wantTimes(2000, 2000, 0)
	f.at(9999).wantChargeCancelled(true, "a", 0, 1)
	f.wantChargeCancelled(true, "c", 2000, 2)
	f.wantTimes()
	f.chargeID("d", 2).chargeID("e", 1)
	f.wantChargeCancelled(true, "d", 9999, 2)
	for range 2 {
		f.wantChargeCancelled(false, "b", 1000, 2)
		f.wantChargeCancelled(false, "d", 9999, 2) // what e was charged at the same time stays
	}
	f.wantTimes(9999)
	f.at(9999+10_000).wantChargeCancelled(false, "e", 9999, 1)
}

func chargeBelowReservation(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/10s")
	f.chargeID("a", 1).at(1000).chargeID("b", 1)
	f.wantReservation(f.at(2000).reserve("c", 1, minute), 10_000)
	f.wantChargeCancelled(true, "a", 0, 1)
	f.wantTimes(10_000, 1000)
	f.wantCancelled(true, "c", 10_000, 1)
	f.wantTimes(1000)
	f.chargeID("d", 1).limit(1, "2/10s", 11_000)
	// What was reserved may be cancelled before its time and after it, but not both.
	f.wantReservation(f.reserve("e", 1, minute), 11_000)
	f.wantReservation(f.reserve("f", 1, minute), 12_000)
	f.wantChargeCancelled(true, "e", 11_000, 1)
	f.at(12_000).wantChargeCancelled(false, "e", 11_000, 1)
	f.wantChargeCancelled(true, "f", 12_000, 1)
	f.wantTimes()
	// One that was cancelled and is made again for the same time is cancelled once more.
	f.allow(2)
	for range 2 {
		f.wantReservation(f.reserve("g", 1, minute), 22_000)
		f.wantChargeCancelled(true, "g", 22_000, 1)
	}
	f.wantReservation(f.reserve("g", 1, minute), 22_000)
	f.at(22_000).wantChargeCancelled(true, "g", 22_000, 1)
	f.wantChargeCancelled(false, "g", 22_000, 1)
	f.wantTimes()
}

func chargeAgain(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/10s")
	f.chargeID("a", 1)
	f.wantChargeCancelled(true, "a", 0, 1)
	q := f.request(1)
	q.ID = "a"
	if r := f.at(1000).decide(q); !r.Allowed || r.Replayed {
		t.Errorf("an ID whose charge was cancelled: %+v, want it charged", r)
	}
	f.wantChargeCancelled(false, "a", 0, 1)
	f.wantTimes(1000)
	f.wantChargeCancelled(true, "a", 1000, 1)
	f.wantTimes()
}

// What was cancelled stays cancelled when its ID is reserved again for the same time with another cost. Its
// first handle would free what others were charged at that time.
func chargeAgainWithAnotherCost(t *testing.T, h Harness) {
	f := newFixture(t, h, "10/10s")
	f.allow(10)
	f.wantReservation(f.reserve("g", 5, minute), 10_000)
	f.wantChargeCancelled(true, "g", 10_000, 5)
	f.wantReservation(f.reserve("h", 4, minute), 10_000)
	f.wantReservation(f.reserve("g", 1, minute), 10_000)
	f.wantChargeCancelled(false, "g", 10_000, 5)
	f.at(10_000).wantChargeCancelled(false, "g", 10_000, 5)
	f.allow(5)
	f.limit(1, "10/10s", 20_000) // no more than 10 in this window
	f.wantChargeCancelled(true, "g", 10_000, 1)
	for range 2 {
		f.wantChargeCancelled(false, "g", 10_000, 1)
		f.wantChargeCancelled(false, "g", 10_000, 5)
	}
	f.allow(1)
	f.limit(1, "10/10s", 20_000)
	// The first cost once more is the first charge again.
	for range 2 {
		f.wantReservation(f.reserve("g", 5, minute), 20_000)
		f.wantChargeCancelled(true, "g", 20_000, 5)
		f.wantReservation(f.reserve("g", 2, minute), 20_000)
		f.wantChargeCancelled(true, "g", 20_000, 2)
	}
	f.wantReservation(f.reserve("g", 5, minute), 20_000)
	f.at(20_000).wantChargeCancelled(false, "g", 20_000, 2)
	f.wantChargeCancelled(true, "g", 20_000, 5)
	f.wantTimes()
}

func amountCancelled(t *testing.T, h Harness) {
	f := newFixture(t, h, "10000/10s")
	f.chargeID("a", 1000).at(1000).chargeID("b", 2000).chargeID("c", 3000)
	f.at(2000).wantLeft(4000)
	charges, _, err := f.Log.Charges(t.Context(), f.id(), 1001)
	if err != nil || len(charges) != 1 || charges[0].At-f.start != 1000 || charges[0].Points != 5000 {
		t.Errorf("Charges: got %+v, %v, want 5000 at 1 s", charges, err)
	}
	f.wantChargeCancelled(false, "b", 999, 2000)
	f.wantChargeCancelled(true, "b", 1000, 2000)
	f.wantChargeCancelled(false, "b", 1000, 2000)
	f.wantLeft(6000)
	q := f.request(2000)
	q.ID = "b"
	if r := f.decide(q); !r.Allowed || r.Replayed {
		t.Errorf("an ID whose charge was cancelled: %+v, want it charged", r)
	}
	f.wantChargeCancelled(true, "c", 1000, 3000)
	f.wantLeft(7000)
	f.at(9999).wantChargeCancelled(true, "a", 0, 1000)
	f.wantLeft(8000)
	f.wantChargeCancelled(true, "b", 2000, 2000)
	f.wantLeft(10_000)
	if f.reset() {
		t.Error("a log from which everything was cancelled exists")
	}
	f.chargeID("d", 1).at(20_000).wantChargeCancelled(false, "d", 9999, 1)
}

func amountBesideHolds(t *testing.T, h Harness) {
	f := newFixture(t, h, "1000/10s")
	f.wantAllowed(f.decide(f.holding(300, minute, 2)))
	f.chargeID("a", 200).at(1000).wantChargeCancelled(true, "a", 0, 200)
	f.wantLeft(700)
	f.wantSettled(f.settle(2, 100), timestamplog.Settled{State: algorithms.HoldSettled, Held: 300, Used: 100, Expires: minute})
	f.wantLeft(900)
}

func chargesManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "100/1h")
	const each = 20
	kept := make([]int, callers)
	concurrently(func(caller int) {
		for i := range each {
			q := f.request(caller%3 + 1)
			q.ID = fmt.Sprint(caller, "-", i)
			if r := f.decideInGoroutine(q); r.Allowed && i%2 == 0 {
				charge := timestamplog.Reservation{LogID: f.id(), At: r.ReservedAt, Cost: q.Cost, ID: q.ID, Counts: hour}
				for again := range 2 {
					if freed, err := f.Log.Cancel(t.Context(), charge); err != nil || freed != (again == 0) {
						t.Errorf("Cancel for the %d. time: %v, %v", again+1, freed, err)
					}
				}
			} else if r.Allowed {
				kept[caller] += q.Cost
			}
		}
	})
	total := 0
	for _, cost := range kept {
		total += cost
	}
	if states := f.detail(1); total > 100 || states[0].Remaining != 100-total {
		t.Errorf("a total of %d was allowed and not cancelled, and %d are left", total, states[0].Remaining)
	}
}
