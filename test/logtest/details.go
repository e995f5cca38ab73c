package logtest

import (
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func details() []contract {
	return []contract{
		{"what remains is reported per rule, after the answer", leftAfterTheAnswer},
		{"a peek reports what remains without counting itself", peekLeavesCounts},
		{"a refused request changes no remaining count", refusedLeavesCounts},
		{"each rule reports its own wait for this cost", waitPerRule},
		{"beside a rule that never allows, the others report each cost's own wait", waitPerCost},
		{"a lowered limit leaves 0, never a negative count", loweredLeavesNothing},
		{"each rule reports when its whole limit is available again", resetPerRule},
		{"a reservation ahead delays when a whole limit is available again", resetAfterReservation},
		{"the states of an earlier answer are replaced", statesReplaced},
		{"an empty stack has no states", emptyStackHasNoStates},
	}
}

// askDetail decides a request of cost 1 with Detail and charges it.
func (f *fixture) askDetail() timestamplog.Result {
	f.t.Helper()
	q := f.request(1)
	q.Detail = true
	return f.decide(q)
}

func (f *fixture) wantStates(got []timestamplog.RuleState, want ...timestamplog.RuleState) {
	f.t.Helper()
	if !slices.EqualFunc(got, want, sameButForReset) {
		f.t.Fatalf("at +%d the states of the rules %v are %v, want %v", f.Clock.NowMS()-f.start, f.policy.Rules, got, want)
	}
}

// sameButForReset leaves ResetAfterMS to wantResets and to the property test.
func sameButForReset(a, b timestamplog.RuleState) bool {
	return a.Remaining == b.Remaining && a.RetryAfterMS == b.RetryAfterMS
}

// wantResets fails the test unless the rules are fully restored after so many
// milliseconds each.
func wantResets(f *fixture, states []timestamplog.RuleState, want ...int64) {
	f.t.Helper()
	got := make([]int64, len(states))
	for i, s := range states {
		got[i] = s.ResetAfterMS
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("at +%d the rules %v are fully restored after %v ms, want %v", f.Clock.NowMS()-f.start, f.policy.Rules, got, want)
	}
}

func resetPerRule(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s", "5/m")
	wantResets(f, f.detail(1), 0, 0)
	wantResets(f, f.askDetail().States, second, minute)
	wantResets(f, f.at(300).detail(1), 700, minute-300)
	wantResets(f, f.askDetail().States, second, minute)
	r := f.at(400).askDetail() // refused: nothing is added
	f.wantLimited(r, "2/1s", 1000)
	wantResets(f, r.States, 900, minute-100)
	wantResets(f, f.at(1299).detail(2), 1, minute-999)
	wantResets(f, f.at(1300).detail(2), 0, minute-1000)
	wantResets(f, f.at(minute+299).detail(2), 0, 1)
	wantResets(f, f.at(minute+300).detail(2), 0, 0)
	f.at(2 * minute).allow(1)
	f.change(f.policy.Retention, "0/s", "3/10s")
	wantResets(f, f.detail(1), 0, 10*second)
}

func resetAfterReservation(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s", "9/10s")
	f.allow(1)
	f.wantReservation(f.at(400).reserve("a", 1, minute), second)
	wantResets(f, f.detail(1), 1600, 10_600)
	wantResets(f, f.at(1500).detail(1), 500, 9500)
}

func leftAfterTheAnswer(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s", "5/m")
	f.wantStates(f.askDetail().States, state(1, 0), state(4, 0))
	f.wantStates(f.at(300).askDetail().States,
		state(0, 700), state(3, 0))
	f.wantStates(f.at(999).detail(1), state(0, 1), state(3, 0))
	f.wantStates(f.at(1000).detail(1), state(1, 0), state(3, 0))
	f.wantStates(f.at(60_299).detail(1), state(2, 0), state(4, 0))
	f.wantStates(f.at(60_300).detail(1), state(2, 0), state(5, 0))
}

func peekLeavesCounts(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	for range 3 {
		f.wantStates(f.detail(3), state(3, 0))
	}
	f.allow(1)
	f.wantStates(f.detail(2), state(2, 0))
	f.wantStates(f.detail(3), state(2, 1000))
}

func refusedLeavesCounts(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/s", "5/m")
	f.allow(1)
	for range 3 {
		r := f.at(600).askDetail()
		f.wantLimited(r, "1/1s", 1000)
		f.wantStates(r.States, state(0, 400), state(4, 0))
	}
}

func waitPerRule(t *testing.T, h Harness) {
	f := newFixture(t, h, "0/1ms", "4/s", "6/m")
	open := f.with("4/s", "6/m")
	f.wantStates(f.detail(2), state(0, timestamplog.Never),
		state(4, 0), state(6, 0))
	open.allow(2)
	open.at(400).allow(2)
	open.at(500)
	open.wantStates(open.detail(1), state(0, 500), state(2, 0))
	open.wantStates(open.detail(2), state(0, 500), state(2, 0))
	open.wantStates(open.detail(3), state(0, 900), state(2, 59_500))
	open.wantStates(open.detail(4), state(0, 900), state(2, 59_500))
}

func waitPerCost(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	f.allow(1)
	f.change(f.policy.Retention, "0/1ms", "2/s")
	for cost := 1; cost <= 2; cost++ {
		q := f.request(cost)
		q.Detail = true
		f.wantStates(f.decide(q).States, state(0, timestamplog.Never), state(1, int64(cost-1)*1000))
	}
}

func loweredLeavesNothing(t *testing.T, h Harness) {
	f := newFixture(t, h, "10/m")
	f.allow(8)
	f.change(f.policy.Retention, "3/m")
	f.wantStates(f.at(1).detail(1), state(0, 59_999))
}

func statesReplaced(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/s", "9/m")
	q := f.request(1)
	results := make([]timestamplog.Result, 1)
	for i, detail := range []bool{true, true, false, true} {
		q.Detail = detail
		f.Log.Decide(t.Context(), []timestamplog.Request{q}, results)
		if results[0].Err != nil {
			t.Fatal(results[0].Err)
		}
		want := []timestamplog.RuleState{{Remaining: 4 - i}, {Remaining: 8 - i}}
		if !detail {
			want = nil
		}
		f.wantStates(results[0].States, want...)
	}
}

func emptyStackHasNoStates(t *testing.T, h Harness) {
	f := newFixture(t, h)
	r := f.askDetail()
	f.wantAllowed(r)
	f.wantStates(r.States)
}

// state is what one rule has left and its wait in milliseconds.
func state(remaining int, wait int64) timestamplog.RuleState {
	return timestamplog.RuleState{Remaining: remaining, RetryAfterMS: wait}
}
