package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
	"github.com/stint-dev/stint/test/servers"
)

// onEveryLog runs test with a node whose log is in memory, and with one whose log is in Redis.
func onEveryLog(t *testing.T, test func(*testing.T, *node), policies ...*rules.Policy) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, newNode(t, policies...)) })
	t.Run("Redis", func(t *testing.T) {
		n := newNode(t, policies...)
		n.now.Store(time.Now().Add(time.Hour).UnixMilli()) // Redis expires its keys by its own clock
		log, err := redislog.Open(servers.Redis(t).URL, redislog.Options{Clock: n.clock, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		local := memlog.New(memlog.Options{Now: n.clock})
		t.Cleanup(func() { local.Close() })
		n.Gate = New(Options{View: n, Log: log, Local: local, Deadline: time.Minute, Recorder: &n.recorded, Now: n.clock})
		test(t, n)
		if n.Outage().Open() {
			t.Errorf("an outage began: %+v", n.Outage())
		}
	})
}

// withOutcomes returns a policy for every key, and as many policies with an outcome as a key may
// have.
func withOutcomes(t testing.TB, limit string) []*rules.Policy {
	t.Helper()
	all := []*rules.Policy{policy(t, 1, "default", "*", "5/m")}
	for i := range rules.MaxConditional {
		all = append(all, policy(t, int64(i+2), fmt.Sprint("outcome-", i), "*", limit, counts(fmt.Sprint("outcome_", i))))
	}
	return all
}

func TestUsageIsChargedBesideAKeyWithOnlyAnOutcome(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		n.block(t, "b", "c:*", time.Time{})
		for _, keys := range [][]string{{"a:1", "b:1", "c:1"}, {"b:1", "a:1", "c:1"}} {
			before := n.used(t, "b:1")
			j := n.checkAll(t, keys, func(c *Check) { c.ChargeAlways = true })
			if j.Outcome != Blocked {
				t.Errorf("the check of %v is %s", keys, j.Outcome)
			}
			if used := n.used(t, "b:1"); used != before+1 {
				t.Errorf("after a check of %v, b:1 has used %d, want %d", keys, used, before+1)
			}
		}
	}, policy(t, 1, "guessing", "a:*", "5/m", counts("login_failed")), policy(t, 2, "own", "b:*", "9/m"))
}

func TestOutageChargesUsageBesideAKeyWithOnlyAnOutcome(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "guessing", "a:*", "5/m", counts("login_failed")), policy(t, 2, "own", "b:*", "9/m"))
	n.block(t, "b", "c:*", time.Time{})
	log.down.Store(true)
	n.checkAll(t, []string{"a:1", "b:1", "c:1"}, func(c *Check) { c.ChargeAlways = true })
	if d := n.check(t, "b:1", peeks, func(c *Check) { c.Detail = true }); d.States[0].Remaining != 8 {
		t.Errorf("b:1 has %d left, want 8", d.States[0].Remaining)
	}
}

func TestChecksOfManyKeysUnderManyOutcomePoliciesAreDecided(t *testing.T) {
	var keys []string
	for i := range 16 {
		keys = append(keys, fmt.Sprintf("token:%d", i))
	}
	always := func(c *Check) { c.ChargeAlways = true }
	onEveryLog(t, func(t *testing.T, n *node) {
		wantUsed := func(want int) {
			t.Helper()
			for _, k := range keys {
				if used := n.used(t, k); used != want {
					t.Errorf("%s has used %d, want %d", k, used, want)
				}
			}
		}
		if j := n.checkAll(t, keys); j.Outcome != Allowed || j.Degraded != "" {
			t.Fatalf("with room everywhere: %s, degraded %q", j.Outcome, j.Degraded)
		}
		wantUsed(1)
		wantReported(t, n.report(t, keys[15], "outcome_14"), Charged)
		n.advance(10 * time.Second)
		wantReported(t, n.report(t, keys[3], "outcome_7"), Charged)
		j := n.checkAll(t, keys)
		if j.Outcome != Limited || j.RetryAfter() != time.Minute || j.Decisions[3].Policy.Name != "outcome-7" || j.Decisions[15].Policy.Name != "outcome-14" {
			t.Fatalf("with two full outcomes: %s, wait %s", j.Outcome, j.RetryAfter())
		}
		wantUsed(1)
		if j := n.checkAll(t, keys, always); j.Outcome != Limited {
			t.Errorf("usage: %s", j.Outcome)
		}
		wantUsed(2)
		if j := n.checkAll(t, keys, waits(59*time.Second)); j.Outcome != Limited || j.Delay != 0 || j.RetryAfter() != time.Second {
			t.Errorf("with too short a wait: %s after %s, retry after %s", j.Outcome, j.Delay, j.RetryAfter())
		}
		wantUsed(2)
		if j := n.checkAll(t, keys, waits(time.Minute)); j.Outcome != Allowed || j.Delay != time.Minute || j.Handle == "" {
			t.Errorf("with a wait: %s after %s", j.Outcome, j.Delay)
		}
		n.advance(time.Minute)
		if j := n.checkAll(t, keys); j.Outcome != Allowed {
			t.Errorf("after the wait: %s", j.Outcome)
		}
		wantUsed(2) // the reserved one and this one
	}, withOutcomes(t, "1/m")...)
}

// callLog records the number of requests and the deadline of each call.
type callLog struct {
	timestamplog.Log
	mu        sync.Mutex
	sizes     []int
	deadlines []time.Time
}

func (l *callLog) note(ctx context.Context, size int) {
	until, _ := ctx.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes, l.deadlines = append(l.sizes, size), append(l.deadlines, until)
}

func (l *callLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	l.note(ctx, len(requests))
	l.Log.Decide(ctx, requests, results)
}

func (l *callLog) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	l.note(ctx, len(requests))
	return l.Log.DecideAll(ctx, requests, results)
}

// recordCalls makes the log of n a callLog.
func (n *node) recordCalls() *callLog {
	log := &callLog{Log: n.log}
	n.log = log
	return log
}

func TestRequestsOfACheckShareOneDeadline(t *testing.T) {
	n, _ := newRemoteNode(t, policy(t, 1, "default", "*", "9/m"), policy(t, 2, "guessing", "ip:*", "2/m", counts("login_failed")),
		policy(t, 3, "login", "token:*", "2/m", when(t, "/login", "")), policy(t, 4, "trial", "*", "9/m", mode(rules.Shadow)))
	n.deadline = time.Hour
	for name, ask := range map[string]func(){
		"an outcome":   func() { n.check(t, "ip:203.0.113.7") },
		"a condition":  func() { n.check(t, "token:a", withRequest("POST", "/login")) },
		"several keys": func() { n.checkAll(t, []string{"ip:203.0.113.8", "token:b"}) },
	} {
		log := n.recordCalls()
		ask()
		if len(log.deadlines) != 2 || !log.deadlines[0].Equal(log.deadlines[1]) {
			t.Errorf("%s: the deadlines of the calls are %v, want two equal ones", name, log.deadlines)
		}
	}
}

func TestHangingLogIsWaitedForOnce(t *testing.T) {
	many := make([]string, 16)
	for i := range many {
		many[i] = fmt.Sprintf("token:%d", i)
	}
	outcomes := withOutcomes(t, "20/m")
	for _, p := range outcomes[1:8] {
		p.Outcome = "login_failed"
	}
	n, log := newRemoteNode(t, append(outcomes, policy(t, 99, "trial", "*", "9/m", mode(rules.Shadow)))...)
	log.hung.Store(true)
	for name, ask := range map[string]func() string{
		"a check":      func() string { return n.check(t, "token:a").Degraded },
		"a wait":       func() string { return n.check(t, "token:b", waits(time.Second)).Degraded },
		"several keys": func() string { return n.checkAll(t, many).Degraded },
		"a batch": func() string {
			decisions, errs := make([]Decision, len(many)), make([]error, len(many))
			all := checks(t, many)
			all[1].MaxWait = time.Second
			n.Decide(t.Context(), all, decisions, errs)
			return decisions[1].Degraded
		},
		"reports": func() string {
			answers := n.reportMany(t, 100)
			return answers[99].Degraded
		},
	} {
		log.asked.Store(0)
		if degraded := ask(); degraded == "" || log.asked.Load() != 1 {
			t.Errorf("%s: the log was called %d times and Degraded is %q, want 1 and a reason", name, log.asked.Load(), degraded)
		}
	}
}

// reportMany reports an outcome for count keys.
func (n *node) reportMany(t *testing.T, count int) []Reported {
	t.Helper()
	reports, answers := make([]Report, count), make([]Reported, count)
	for i := range reports {
		reports[i] = Report{Key: key(t, fmt.Sprintf("token:%d", i)), Outcome: "login_failed"}
	}
	if err := n.Report(t.Context(), reports, answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

func TestManyReportsAreSplitIntoCallsWithADeadlineEach(t *testing.T) {
	all := withOutcomes(t, "20/d")
	for _, p := range all[1:] {
		p.Outcome = "login_failed"
	}
	onEveryLog(t, func(t *testing.T, n *node) {
		log := n.recordCalls()
		for i, a := range n.reportMany(t, 1000) {
			if a.Degraded != "" || len(a.Policies) != rules.MaxConditional || a.Policies[0].Result != Charged {
				t.Fatalf("report %d: %+v", i, a)
			}
		}
		if n.local == nil {
			return
		}
		if calls := (1000*rules.MaxConditional + maxAsked - 1) / maxAsked; len(log.sizes) != calls || slices.Max(log.sizes) != maxAsked {
			t.Errorf("the calls have %v requests, want %d calls", log.sizes, calls)
		}
		if !slices.IsSortedFunc(log.deadlines, func(a, b time.Time) int { return a.Compare(b) }) || len(slices.Compact(log.deadlines)) != len(log.sizes) {
			t.Error("two calls have the same deadline")
		}
	}, all...)
}

// If the deadline applies to the batch, all parts of the batch have the same deadline.
func TestBatchMayHaveOneDeadline(t *testing.T) {
	n, _ := newRemoteNode(t, policy(t, 1, "default", "*", "9/m"), policy(t, 2, "login", "token:*", "2/m", when(t, "/login", "")))
	n.deadline, n.ofAll = time.Hour, true
	log := n.recordCalls()
	batch := make([]Check, 2*maxAsked+6)
	for i := range batch {
		batch[i] = Check{Key: key(t, fmt.Sprintf("ip:203.0.113.%d", i%250)), Cost: 1}
		if i < 3 {
			batch[i].Key = key(t, fmt.Sprintf("token:%d", i))
			withRequest("POST", "/login")(&batch[i])
		}
	}
	n.Decide(t.Context(), batch, make([]Decision, len(batch)), make([]error, len(batch)))
	if len(log.sizes) != 3+3 || len(slices.Compact(log.deadlines)) != 1 {
		t.Errorf("calls of %v requests until %v", log.sizes, log.deadlines)
	}
}

func TestRefusalsOfAFullOutcomePolicyAreCached(t *testing.T) {
	onEveryLog(t, testRefusalsAreCached, policy(t, 1, "default", "*", "9/m"), policy(t, 2, "guessing", "*", "1/m", counts("login_failed")))
}

func testRefusalsAreCached(t *testing.T, n *node) {
	log := n.recordCalls()
	cache := refusalcache.New(log, refusalcache.Options{Now: n.clock})
	n.log = cache
	asked := func(change ...func(*Check)) int {
		t.Helper()
		log.sizes = nil
		if d := n.check(t, "token:a", change...); d.Outcome != Limited || d.Policy.Name != "guessing" || d.RetryAfter() != time.Minute || d.ID.IsZero() {
			t.Errorf("%s by %s, wait %s, id %q", d.Outcome, d.Policy.Name, d.RetryAfter(), d.ID)
		}
		return len(log.sizes)
	}
	n.report(t, "token:a", "login_failed")
	if first, second := asked(), asked(); first != 2 || second != 1 {
		t.Errorf("the log was called %d times and then %d times, want 2, and then 1 for the key's own policy", first, second)
	}
	if peek := asked(peeks); peek != 2 {
		t.Errorf("the log was called %d times by a peek, want 2", peek)
	}
	wantReported(t, n.report(t, "token:a", "login_failed"), Full)
	guessing, _ := n.selector.ByName("guessing")
	if existed, err := cache.Reset(t.Context(), timestamplog.LogIDOf(guessing, "token:a")); err != nil || !existed {
		t.Fatal(existed, err)
	}
	if d := n.check(t, "token:a"); d.Outcome != Allowed {
		t.Errorf("after a reset: %s", d.Outcome)
	}
}
