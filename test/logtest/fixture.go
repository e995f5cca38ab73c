package logtest

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// lastPolicy numbers the policies of a test binary, so that no test meets the
// logs of another, whatever server they share.
var lastPolicy atomic.Int64

// newPolicy returns an enforcing policy of its own id.
func newPolicy(t testing.TB, h Harness, stack ...string) *rules.Policy {
	t.Helper()
	p := &rules.Policy{ID: lastPolicy.Add(1), Version: 1, Generation: 1, Mode: rules.Enforce, Options: h.Options}
	p.Algorithm = cmp.Or(h.Algorithm, algorithms.TimestampLog)
	p.Rules = parseStack(t, stack...)
	p.Retention = p.Retention.Cover(p.Rules)
	return p
}

func parseStack(t testing.TB, stack ...string) rules.Stack {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// fixture decides requests of one key under one policy by one Log. It has many methods because each
// request and each expectation of the contracts is one; they are beside their contracts.
type fixture struct {
	Harness
	t      *testing.T
	start  int64 // the clock's time when the test began
	policy *rules.Policy
	key    string
}

func newFixture(t *testing.T, h Harness, stack ...string) *fixture {
	return &fixture{Harness: h, t: t, start: h.Clock.NowMS(), policy: newPolicy(t, h, stack...), key: "ip:203.0.113.7"}
}

// with returns a fixture on the same log and clock with its own policy.
func (f *fixture) with(stack ...string) *fixture {
	other := *f
	other.policy = newPolicy(f.t, f.Harness, stack...)
	return &other
}

// forKey returns a fixture that differs in the key.
func (f *fixture) forKey(key string) *fixture {
	other := *f
	other.key = key
	return &other
}

// change replaces the policy's stack. kept is the retention that earlier
// versions still require.
func (f *fixture) change(kept rules.Retention, stack ...string) {
	f.t.Helper()
	next := *f.policy
	next.Version++
	next.Rules = parseStack(f.t, stack...)
	next.Retention = kept.Cover(next.Rules)
	f.policy = &next
}

// at moves the clock to ms milliseconds after the test's beginning.
func (f *fixture) at(ms int64) *fixture {
	f.Clock.Set(f.start + ms)
	return f
}

func (f *fixture) request(cost int) timestamplog.Request {
	return timestamplog.RequestOf(f.policy, f.key, cost)
}

func (f *fixture) id() timestamplog.LogID { return timestamplog.LogIDOf(f.policy, f.key) }

// decide decides q alone.
func (f *fixture) decide(q timestamplog.Request) timestamplog.Result {
	f.t.Helper()
	results := make([]timestamplog.Result, 1)
	f.Log.Decide(f.t.Context(), []timestamplog.Request{q}, results)
	if results[0].Err != nil {
		f.t.Fatalf("Decide(%+v): %v", q, results[0].Err)
	}
	if results[0].Now != f.Clock.NowMS() {
		f.t.Fatalf("Decide: Now is %d, want the clock's %d", results[0].Now, f.Clock.NowMS())
	}
	return own(results)[0]
}

// own returns a copy of results and writes over the memory of their states, as a caller does
// that reuses it: a log may not rely on it.
func own(results []timestamplog.Result) []timestamplog.Result {
	copied := slices.Clone(results)
	for i := range copied {
		copied[i].States = slices.Clone(results[i].States)
		states := results[i].States[:cap(results[i].States)]
		for j := range states {
			states[j] = timestamplog.RuleState{Remaining: -1, RetryAfterMS: -1, ResetAfterMS: -1}
		}
	}
	return copied
}

func (f *fixture) ask(cost int) timestamplog.Result {
	f.t.Helper()
	return f.decide(f.request(cost))
}

func (f *fixture) peek(cost int) timestamplog.Result {
	f.t.Helper()
	q := f.request(cost)
	q.Peek = true
	return f.decide(q)
}

// detail peeks and returns what each rule has left.
func (f *fixture) detail(cost int) []timestamplog.RuleState {
	f.t.Helper()
	q := f.request(cost)
	q.Peek, q.Detail = true, true
	return f.decide(q).States
}

// allow fails the test unless a request of that cost is allowed.
func (f *fixture) allow(cost int) {
	f.t.Helper()
	f.wantAllowed(f.ask(cost))
}

func (f *fixture) wantAllowed(r timestamplog.Result) {
	f.t.Helper()
	f.wantReservation(r, r.Now-f.start)
}

// wantReservation fails the test unless the answer is a reservation at milliseconds after the
// test's beginning.
func (f *fixture) wantReservation(r timestamplog.Result, at int64) {
	f.t.Helper()
	if !r.Allowed || r.ReservedAt != f.start+at || r.RetryAt != 0 || r.Rule != -1 || r.Boundary != 0 {
		f.t.Fatalf("at +%d: %s, want it allowed at +%d", r.Now-f.start, f.describe(r), at)
	}
}

// limit fails the test unless a request of that cost is limited by the rule
// until retry milliseconds after the test's beginning.
func (f *fixture) limit(cost int, rule string, retry int64) {
	f.t.Helper()
	f.wantLimited(f.ask(cost), rule, retry)
}

func (f *fixture) wantLimited(r timestamplog.Result, rule string, retry int64) {
	f.t.Helper()
	want := timestamplog.Result{Now: r.Now, RetryAt: f.start + retry}
	want.Rule = slices.Index(f.policy.Rules.Strings(), rule)
	if retry == timestamplog.Never {
		want.RetryAt = retry
	} else {
		want.Boundary = want.RetryAt - f.policy.Rules[want.Rule].WindowMS()
	}
	if r.Allowed || r.ReservedAt != 0 || r.RetryAt != want.RetryAt || r.Rule != want.Rule || r.Boundary != want.Boundary {
		f.t.Fatalf("at +%d: %s, want it limited: %s", r.Now-f.start, f.describe(r), f.describe(want))
	}
}

func (f *fixture) describe(r timestamplog.Result) string {
	if r.Allowed {
		return fmt.Sprintf("allowed at +%d", r.ReservedAt-f.start)
	}
	rule := "no rule"
	if r.Rule >= 0 && r.Rule < len(f.policy.Rules) {
		rule = f.policy.Rules[r.Rule].String()
	}
	if r.RetryAt == timestamplog.Never {
		return "limited by " + rule + " permanently"
	}
	return "limited by " + rule + " for " + (time.Duration(r.RetryAt-r.Now) * time.Millisecond).String() +
		", boundary " + (time.Duration(r.Now-r.Boundary) * time.Millisecond).String() + " ago"
}

// times returns the times of the log, in milliseconds after the test's
// beginning, the newest first.
func (f *fixture) times() []int64 {
	f.t.Helper()
	return f.timesOf(f.id(), 1_000_000)
}

func (f *fixture) timesOf(id timestamplog.LogID, limit int) []int64 {
	f.t.Helper()
	times, now, err := f.Log.Timestamps(f.t.Context(), id, limit)
	if err != nil {
		f.t.Fatalf("Timestamps: %v", err)
	}
	if now != f.Clock.NowMS() {
		f.t.Fatalf("Timestamps: the time is %d, want the clock's %d", now, f.Clock.NowMS())
	}
	since := make([]int64, len(times))
	for i, t := range times {
		since[i] = t - f.start
	}
	return since
}

func (f *fixture) wantTimes(want ...int64) {
	f.t.Helper()
	if got := f.times(); !slices.Equal(got, want) {
		f.t.Fatalf("Timestamps: got %v, want %v", got, want)
	}
}

// reset forgets the log and returns whether it had anything.
func (f *fixture) reset() bool {
	f.t.Helper()
	existed, err := f.Log.Reset(f.t.Context(), f.id())
	if err != nil {
		f.t.Fatalf("Reset: %v", err)
	}
	return existed
}

// wait moves the clock by d.
func (f *fixture) wait(d time.Duration) { f.Clock.Advance(d) }
