package logtest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// RunDistinct runs the contracts of distinct rules.
func RunDistinct(t *testing.T, newHarness func(*testing.T) Harness) {
	run(t, distinctContracts(), newHarness)
}

func distinctContracts() []contract {
	return []contract{
		{"a value that counts is allowed again and moves its time, and a new one is refused while the limit is full", valuesCountOnce},
		{"each rule counts the values of its own window", valuesOfEachWindow},
		{"a request without a value returns when a new value is allowed", valuesAskedFor},
		{"values are charged by ID once, and all or nothing with other logs", valuesCombined},
		{"of ten thousand values of an attacker no more than the limit are kept", valuesBounded},
		{"a lowered limit of values refuses at once, and a raised one finds what was kept", valuesLowered},
		{"values under different keys, policies and generations are separate", valuesApart},
		{
			"any sequence of values, clock moves, resets and changes of policy is answered as brute force answers it",
			simulate(func() oracle { return newDistinctModel() }),
		},
	}
}

// valueOf returns a request with one value.
func valueOf(f *fixture, value uint64) timestamplog.Request {
	q := f.request(1)
	q.Value, q.Detail = value, true
	return q
}

func allowValue(f *fixture, value uint64) timestamplog.Result {
	f.t.Helper()
	r := f.decide(valueOf(f, value))
	f.wantAllowed(r)
	return r
}

func valuesCountOnce(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m distinct path")
	for i := range uint64(3) {
		allowValue(f.at(int64(i)*second), i+1)
	}
	f.wantLimited(f.at(3*second).decide(valueOf(f, 4)), "3/1m distinct path", minute)
	f.wantTimes(2*second, second, 0)
	f.wantStates(allowValue(f.at(10*second), 1).States, state(0, 51*second))
	f.wantTimes(10*second, 2*second, second)
	q := valueOf(f, 4)
	q.ChargeAlways = true
	f.wantLimited(f.decide(q), "3/1m distinct path", minute+second)
	f.wantLimited(f.at(minute+second-1).decide(valueOf(f, 4)), "3/1m distinct path", minute+second)
	allowValue(f.at(minute+second), 4)
	f.wantTimes(minute+second, 10*second, 2*second)
}

func valuesOfEachWindow(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s distinct path", "3/m distinct path")
	allowValue(f, 1)
	allowValue(f.at(10), 2)
	f.wantLimited(f.at(20).decide(valueOf(f, 3)), "2/1s distinct path", second)
	allowValue(f.at(second), 3)
	// In the minute 1 counts, and in the second it is a new one.
	f.wantLimited(f.at(second+5).decide(valueOf(f, 1)), "2/1s distinct path", second+10)
	allowValue(f.at(second+10), 1)
	f.wantLimited(f.at(10*second).decide(valueOf(f, 4)), "3/1m distinct path", minute+10)
	f.wantStates(f.detail(1), state(2, 0), state(0, minute+10-10*second))
}

func valuesAskedFor(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s distinct path")
	ask := f.request(1)
	ask.Uncharged = true
	f.wantAllowed(f.decide(ask))
	allowValue(f, 1)
	allowValue(f.at(100), 2)
	f.wantLimited(f.decide(ask), "2/1s distinct path", second)
	allowValue(f.at(200), 1) // so that the refusal is not remembered with its old wait
	f.wantLimited(f.decide(ask), "2/1s distinct path", second+100)
	plain := f.with("5/s")
	ask.MaxWait = minute
	waiting := plain.request(1)
	waiting.MaxWait, waiting.ID = minute, "waits"
	results := f.decideCombined(ask, waiting)
	f.wantReservation(results[0], second+100)
	plain.wantReservation(results[1], second+100)
	f.wantTimes(200, 100)
}

func valuesCombined(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "1/m distinct path"), "1/m")
	q := valueOf(a, 7)
	q.ID = "once"
	a.wantAllowed(a.decide(q))
	if r := a.at(second).decide(q); !r.Replayed {
		t.Errorf("Decide: got %+v, want it replayed", r)
	}
	a.wantTimes(0)
	results := a.at(2*second).decideCombined(valueOf(a, 7), b.request(1))
	a.wantAllowed(results[0])
	a.wantTimes(2 * second)
	b.wantTimes(2 * second)
	results = a.at(3*second).decideCombined(valueOf(a, 7), b.request(1))
	if !results[0].Allowed || results[1].Allowed {
		t.Errorf("DecideAll: got %+v, want only the second refused", results)
	}
	a.wantTimes(2 * second) // all or nothing: the value keeps its time
	always := valueOf(a, 7)
	always.ChargeAlways = true
	a.at(4*second).decideCombined(always, b.request(1))
	a.wantTimes(4 * second)
}

func valuesBounded(t *testing.T, h Harness) {
	f := newFixture(t, h, "15/d distinct path")
	requests := make([]timestamplog.Request, 1000)
	results := make([]timestamplog.Result, len(requests))
	for batch := range uint64(10) {
		for i := range requests {
			requests[i] = valueOf(f, batch*1000+uint64(i)+1)
			requests[i].ChargeAlways = true
		}
		f.at(int64(batch)).Log.Decide(t.Context(), requests, results)
		for i, r := range results {
			if r.Err != nil || r.Allowed != (batch == 0 && i < 15) {
				t.Fatalf("Decide(value %d of batch %d): got %+v, want only the first 15 allowed", i, batch, r)
			}
		}
	}
	if n := len(f.times()); n != 15 {
		t.Errorf("the log has %d values, want 15", n)
	}
}

func valuesLowered(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/m distinct path")
	for i := range uint64(4) {
		allowValue(f.at(int64(i)*second), i+1)
	}
	kept := f.policy.Retention
	f.change(kept, "2/m distinct path")
	f.wantLimited(f.at(4*second).decide(valueOf(f, 1)), "2/1m distinct path", minute+2*second)
	f.wantLimited(f.decide(valueOf(f, 4)), "2/1m distinct path", minute+second)
	f.change(kept, "4/m distinct path")
	allowValue(f.at(5*second), 1)
	f.wantLimited(f.decide(valueOf(f, 5)), "4/1m distinct path", minute+second)
}

func valuesApart(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/m distinct path")
	allowValue(f, 1)
	allowValue(f.forKey("evil{user}"), 2)
	allowValue(f.with("1/m distinct path"), 3)
	next := *f
	policy := *f.policy
	policy.Generation++
	next.policy = &policy
	allowValue(&next, 4)
	f.wantLimited(f.decide(valueOf(f, 5)), "1/1m distinct path", minute)
	if !f.reset() || f.reset() {
		t.Error("Reset: want true once and false after that")
	}
	f.wantTimes()
	allowValue(f, 5)
}

// distinctModel is a Log under distinct rules by brute force.
type distinctModel struct {
	*model
	values map[timestamplog.LogID][]modelValue // in the order in which the log keeps them
	// all has every value that was ever allowed, moved along with the log.
	all map[timestamplog.LogID][]modelValue
}

type modelValue struct {
	value   uint64
	at      int64
	version int64 // of the policy that allowed it
}

func newDistinctModel() *distinctModel {
	return &distinctModel{newModel(), map[timestamplog.LogID][]modelValue{}, map[timestamplog.LogID][]modelValue{}}
}

func (m *distinctModel) decide(now int64, q timestamplog.Request) answer {
	a := m.judge(now, q)
	if a.Allowed && !q.Peek && !a.Replayed {
		m.charge(now, now, q)
	}
	a.States = m.states(now, q)
	return a
}

func (m *distinctModel) judge(now int64, q timestamplog.Request) answer {
	a := answer{Result: timestamplog.Result{Allowed: true, Now: now, ReservedAt: now, Rule: -1}, reservation: now}
	if len(q.Rules) == 0 {
		return a
	}
	if !q.Peek {
		m.shift(q, now)
		if m.again(now, q, &a) {
			return a
		}
	}
	values := m.valuesAt(q.LogID, now)
	for _, rule := range q.Rules {
		free := freeAt(values, now, rule, q.Value)
		a.retries, a.boundaries = append(a.retries, free), append(a.boundaries, free-rule.WindowMS())
		a.reservation = max(a.reservation, free)
	}
	a.ReservedAt = a.reservation
	if retry := a.reservation - q.MaxWait; retry > now {
		a.Allowed, a.ReservedAt, a.RetryAt = false, 0, retry
	}
	return a
}

// freeAt returns the first instant from now on at which a rule allows a value, 0 for now,
// trying all at which one leaves the window.
func freeAt(values []modelValue, now int64, rule rules.Rule, value uint64) int64 {
	allows := func(at int64) bool {
		others := 0
		for _, v := range values {
			if (v.value != value || value == 0) && at-v.at < rule.WindowMS() {
				others++
			}
		}
		return others < rule.Limit
	}
	if allows(now) {
		return 0
	}
	for _, v := range values { // in order, so the first that fits is the earliest
		if at := v.at + rule.WindowMS(); at > now && allows(at) {
			return at
		}
	}
	panic("logtest: a limit of values that is never free")
}

func (m *distinctModel) states(now int64, q timestamplog.Request) []timestamplog.RuleState {
	if !q.Detail || len(q.Rules) == 0 {
		return nil
	}
	values := m.valuesAt(q.LogID, now)
	times := make([]int64, len(values))
	for i, v := range values {
		times[i] = v.at
	}
	var states []timestamplog.RuleState
	for _, rule := range q.Rules {
		states = append(states, stateOf(times, now, rule, 1))
	}
	return states
}

// valuesAt returns the values of a log as of now, none if it has expired.
func (m *distinctModel) valuesAt(id timestamplog.LogID, now int64) []modelValue {
	if m.expired(id, now) {
		return nil
	}
	values := slices.Clone(m.values[id])
	if len(values) == 0 {
		return nil
	}
	by := max(0, values[len(values)-1].at-now)
	for i := range values {
		values[i].at -= by
	}
	return values
}

// shift moves a log back where the clock has stepped back.
func (m *distinctModel) shift(q timestamplog.Request, now int64) {
	by := int64(0)
	for _, v := range m.values[q.LogID] {
		by = max(by, v.at-now)
	}
	for _, all := range [][]modelValue{m.values[q.LogID], m.all[q.LogID]} {
		for i := range all {
			all[i].at -= by
		}
	}
	m.shiftTimes(q.LogID, now, q.Retention) // the entry in place of the newest value, and the IDs
}

func (m *distinctModel) charge(now, _ int64, q timestamplog.Request) {
	if len(q.Rules) == 0 {
		return
	}
	window := q.Retention.Window.Milliseconds()
	values := slices.DeleteFunc(m.valuesAt(q.LogID, now), func(v modelValue) bool { return v.value == q.Value || now-v.at >= window })
	values = append(values, modelValue{q.Value, now, q.Version})
	slices.SortFunc(values, func(a, b modelValue) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.value) - int(b.value)
	})
	m.values[q.LogID] = values[max(0, len(values)-q.Retention.Entries-1):]
	m.all[q.LogID] = append(m.all[q.LogID], modelValue{q.Value, now, q.Version})
	// When the log expires, and how far it is moved, follows from its newest entry.
	m.logs[q.LogID] = &modelLog{entries: []modelEntry{{at: now}}, window: window, pushed: now}
	m.add(q, now)
}

func (m *distinctModel) chargeRefused(now int64, q timestamplog.Request, a answer) answer {
	if a.Allowed {
		q.ID = ""
		m.charge(now, now, q)
	}
	return a
}

func (m *distinctModel) times(id timestamplog.LogID, now int64, limit int) []int64 {
	var times []int64
	for _, v := range slices.Backward(m.valuesAt(id, now)) {
		if len(times) < limit && now-v.at < m.logs[id].window {
			times = append(times, v.at)
		}
	}
	return times
}

func (m *distinctModel) reset(id timestamplog.LogID, now int64) bool {
	delete(m.values, id)
	delete(m.all, id)
	return m.model.reset(id, now)
}

func (m *distinctModel) forgetUnnoticed(timestamplog.LogID) {}

func (m *distinctModel) cancelReservation(int64, timestamplog.Reservation) bool { return false }

func (m *distinctModel) show(id timestamplog.LogID) any { return m.values[id] }

// maxDifferent returns how many different values were allowed in the window of a rule that ends
// at an instant, by the versions of the policy since one.
func (m *distinctModel) maxDifferent(id timestamplog.LogID, rule rules.Rule, end, since int64) int {
	different := map[uint64]bool{}
	for _, v := range m.all[id] {
		if v.version >= since && end-v.at < rule.WindowMS() {
			different[v.value] = true
		}
	}
	return len(different)
}

// drawValue makes q a request for distinct rules.
func drawValue(rt *rapid.T, q *timestamplog.Request) {
	q.Value, q.MaxWait = rapid.Uint64Range(1, 16).Draw(rt, "value"), 0
	if (q.Peek || q.Uncharged) && rapid.Bool().Draw(rt, "new") {
		q.Value, q.MaxWait = 0, rapid.SampledFrom([]int64{0, 15, timestamplog.MaxWait}).Draw(rt, "max wait")
	}
}
