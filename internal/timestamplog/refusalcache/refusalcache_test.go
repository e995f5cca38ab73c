package refusalcache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

// counted is a log in memory that counts its requests. If after is set, it is called after each
// Decide.
type counted struct {
	*memlog.Log
	asked int
	after func()
}

func (c *counted) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	c.asked += len(requests)
	c.Log.Decide(ctx, requests, results)
	if c.after != nil {
		c.after()
	}
}

// node is a Log in front of one in memory that has the same clock.
type node struct {
	*Log
	t     *testing.T
	inner *counted
	clock *logtest.Clock
}

func newNode(t *testing.T, size int) *node {
	clock := logtest.NewClock()
	inner := &counted{Log: memlog.New(memlog.Options{Now: clock.Now})}
	return &node{Log: New(inner, Options{Size: size, Now: clock.Now}), t: t, inner: inner, clock: clock}
}

func request(t *testing.T, cost int, stack ...string) timestamplog.Request {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return timestamplog.RequestOf(&rules.Policy{ID: 1, Version: 1, Generation: 1, Rules: parsed}, "ip:203.0.113.7", cost)
}

func (n *node) ask(q timestamplog.Request) timestamplog.Result {
	n.t.Helper()
	var results [1]timestamplog.Result
	n.Decide(n.t.Context(), []timestamplog.Request{q}, results[:])
	return results[0]
}

// fromCache fails the test unless q is refused without a request to the log. With want false, it
// fails unless the log is asked.
func (n *node) fromCache(want bool, q timestamplog.Request) timestamplog.Result {
	n.t.Helper()
	before := n.inner.asked
	r := n.ask(q)
	if asked := n.inner.asked > before; asked == want || r.FromCache != want {
		n.t.Fatalf("the log was asked: %v; the answer is %+v", asked, r)
	}
	return r
}

// newRefusing returns a node that has refused q once.
func newRefusing(t *testing.T, q timestamplog.Request) *node {
	t.Helper()
	n := newNode(t, 0)
	for range 1000 {
		if !n.ask(q).Allowed {
			return n
		}
	}
	t.Fatal("1000 requests were allowed, want a refusal")
	return nil
}

func TestRefusalIsCachedUntilJustBeforeItsRetryAt(t *testing.T) {
	q := request(t, 1, "2/1s")
	n := newRefusing(t, q)
	first := n.fromCache(true, q)
	n.clock.Advance(998 * time.Millisecond)
	last := n.fromCache(true, q)
	if last.Now != first.Now+998 || last.RetryAt != first.RetryAt {
		t.Errorf("the last cached answer is %+v, the first %+v; want the same RetryAt, 998 ms later", last, first)
	}
	n.clock.Advance(time.Millisecond)
	n.fromCache(false, q)
	n.clock.Advance(time.Millisecond)
	if r := n.ask(q); !r.Allowed {
		t.Errorf("at its RetryAt: %+v, want it allowed", r)
	}
}

func TestRefusalIsCachedForTwoSecondsAtMost(t *testing.T) {
	for name, stack := range map[string]string{"a long wait": "2/1h", "a rule that never allows": "0/1h"} {
		t.Run(name, func(t *testing.T) {
			q := request(t, 1, stack)
			n := newRefusing(t, q)
			n.clock.Advance(MaxAge - time.Millisecond)
			n.fromCache(true, q)
			n.clock.Advance(time.Millisecond)
			n.fromCache(false, q)
			n.fromCache(true, q)
		})
	}
}

func TestOnlyExactAnswersComeFromTheCache(t *testing.T) {
	one, three := request(t, 1, "4/1h"), request(t, 3, "4/1h")
	tests := []struct {
		name        string
		cached, ask timestamplog.Request
		change      func(q *timestamplog.Request)
		want        bool
	}{
		{"the same request", one, one, nil, true},
		{"a larger cost, which waits longer", one, three, nil, false},
		{"a cost above 1, while a smaller cost may be allowed", three, three, nil, false},
		{"a peek", one, one, func(q *timestamplog.Request) { q.Peek = true }, false},
		{"an uncharged request", one, one, func(q *timestamplog.Request) { q.Uncharged = true }, true},
		{"an uncharged peek", one, one, func(q *timestamplog.Request) { q.Peek, q.Uncharged = true, true }, false},
		{"a request for a reservation", one, one, func(q *timestamplog.Request) { q.MaxWait, q.ID = 1, "a" }, false},
		{"a request with an ID, which may be a replay", one, one, func(q *timestamplog.Request) { q.ID = "a" }, false},
		{"a request with a new ID, which nobody has sent", one, one, func(q *timestamplog.Request) { q.ID, q.IsNewID = "a", true }, true},
		{"a request that counts although it is refused", one, one, func(q *timestamplog.Request) { q.Options.CountRefused = true }, false},
		{"a request for details, which are not cached", one, one, func(q *timestamplog.Request) { q.Detail = true }, false},
		{"another version of the policy", one, one, func(q *timestamplog.Request) { q.Version++ }, false},
		{"another policy", one, one, func(q *timestamplog.Request) { q.Policy++ }, false},
		{"another generation of the log", one, one, func(q *timestamplog.Request) { q.Generation++ }, false},
		{"another key", one, one, func(q *timestamplog.Request) { q.Key += "0" }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := newRefusing(t, test.cached)
			if test.change != nil {
				test.change(&test.ask)
			}
			n.fromCache(test.want, test.ask)
		})
	}
}

func TestRefusalOfALargerCostIsCachedUntilTheLogChanges(t *testing.T) {
	one, three := request(t, 1, "4/10s"), request(t, 3, "4/10s")
	n := newRefusing(t, one)
	asked := n.fromCache(false, three)
	n.clock.Advance(time.Second)
	if got := n.fromCache(true, three); got.RetryAt != asked.RetryAt || got.Now != asked.Now+1000 {
		t.Errorf("got %+v, want the log's answer a second later: %+v", got, asked)
	}
	n.clock.Advance(time.Second) // the refusal of a cost of 1 has ended
	n.fromCache(false, three)
}

func TestReservationsAndCancelsClearTheCacheAtOnce(t *testing.T) {
	q := request(t, 1, "2/1m")
	waits := q
	waits.MaxWait, waits.ID = timestamplog.MaxWait, "a"
	n := newRefusing(t, q)
	at := n.fromCache(true, q).RetryAt

	reservation := n.ask(waits).ReservedAt
	if reservation != at {
		t.Fatalf("the reservation is %d, want %d", reservation, at)
	}
	second := waits
	second.ID = "b"
	n.ask(second)
	if r := n.fromCache(false, q); r.RetryAt != at+60_000 {
		t.Errorf("after two reservations a check is refused until %d, want %d", r.RetryAt, at+60_000)
	}

	n.fromCache(true, q)
	if made, err := n.Cancel(t.Context(), timestamplog.Reservation{LogID: q.LogID, At: reservation, Cost: 1, ID: "b"}); !made || err != nil {
		t.Fatalf("Cancel() = %v, %v", made, err)
	}
	if r := n.fromCache(false, q); r.RetryAt != at {
		t.Errorf("after one reservation a check is refused until %d, want %d", r.RetryAt, at)
	}

	n.fromCache(true, q)
	third := waits
	third.ID = "c"
	if err := n.DecideAll(t.Context(), []timestamplog.Request{third}, make([]timestamplog.Result, 1)); err != nil {
		t.Fatal(err)
	}
	if r := n.fromCache(false, q); r.RetryAt != at+60_000 {
		t.Errorf("after two reservations again a check is refused until %d, want %d", r.RetryAt, at+60_000)
	}
}

func TestRequestsAfterAReservationInABatchBypassTheCache(t *testing.T) {
	q := request(t, 1, "2/1m")
	waits := q
	waits.MaxWait, waits.ID = timestamplog.MaxWait, "a"
	second := waits
	second.ID = "b"
	n := newRefusing(t, q)
	results := make([]timestamplog.Result, 4)
	n.Decide(t.Context(), []timestamplog.Request{q, waits, second, q}, results)
	if !results[0].FromCache || results[3].FromCache || results[3].RetryAt != results[0].RetryAt+60_000 {
		t.Errorf("got %+v", results)
	}
}

// A limit of a key's own replaces the rules of its policy until it ends, and then the version of the
// policy is asked about again. What the limit allowed makes the policy refuse for longer.
func TestWhatAnotherVersionAllowsClearsTheCacheAtOnce(t *testing.T) {
	for name, change := range map[string]func(*timestamplog.Request){
		"a plain request":     func(*timestamplog.Request) {},
		"one with an ID":      func(q *timestamplog.Request) { q.ID = "a" },
		"one that may wait":   func(q *timestamplog.Request) { q.MaxWait, q.ID = 1000, "a" },
		"usage of the caller": func(q *timestamplog.Request) { q.ChargeAlways = true },
	} {
		t.Run(name, func(t *testing.T) {
			q, own := request(t, 1, "2/1m"), request(t, 1, "9/1m")
			own.Version, own.Retention = -7, rules.Retention{}.Cover(own.Rules)
			q.Retention = own.Retention
			n := newRefusing(t, q)
			at := n.fromCache(true, q).RetryAt
			n.clock.Advance(500 * time.Millisecond)
			change(&own)
			for range 2 {
				if r := n.ask(own); !r.Allowed || r.Replayed {
					t.Fatalf("under the key's own limit: got %+v, want it allowed", r)
				}
				if own.ID != "" {
					own.ID = "b"
				}
			}
			if r := n.fromCache(false, q); r.RetryAt != at+500 {
				t.Errorf("after the limit the policy refuses until %d, want %d", r.RetryAt, at+500)
			}
			n.fromCache(true, q)
		})
	}
}

// Of a policy that counts refused requests, those of several keys that are asked about apart are not
// counted, and those of one key are.
func TestCountedRefusalClearsTheCacheAtOnce(t *testing.T) {
	q := request(t, 1, "1/1m")
	counting := q
	counting.Options.CountRefused = true
	n := newRefusing(t, q)
	at := n.fromCache(true, q).RetryAt
	n.clock.Advance(500 * time.Millisecond)
	if r := n.ask(counting); r.Allowed || r.RetryAt != at+500 {
		t.Fatalf("the counted refusal is %+v, want one until %d", r, at+500)
	}
	if r := n.fromCache(false, q); r.RetryAt != at+500 {
		t.Errorf("refused until %d, want %d", r.RetryAt, at+500)
	}
}

func TestRuleThatNeverAllowsRefusesEveryCostFromTheCache(t *testing.T) {
	n := newRefusing(t, request(t, 1, "0/1h", "4/1h"))
	n.fromCache(true, request(t, 3, "0/1h", "4/1h"))
}

func TestResetClearsTheCacheAtOnce(t *testing.T) {
	q := request(t, 1, "2/1h")
	resets := map[string]func(*node){
		"Reset on this node":             func(n *node) { _, _ = n.Reset(t.Context(), q.LogID) },
		"Forget after a Reset elsewhere": func(n *node) { _, _ = n.inner.Reset(t.Context(), q.LogID); n.Forget(q.LogID) },
		"ForgetAll after missed resets":  func(n *node) { _, _ = n.inner.Reset(t.Context(), q.LogID); n.ForgetAll() },
	}
	for name, reset := range resets {
		t.Run(name, func(t *testing.T) {
			n := newRefusing(t, q)
			reset(n)
			if r := n.ask(q); !r.Allowed {
				t.Errorf("got %+v, want it allowed", r)
			}
		})
	}
}

func TestAnswerOvertakenByAResetIsNotCached(t *testing.T) {
	q := request(t, 1, "2/1h")
	n := newRefusing(t, q)
	n.ForgetAll()
	n.inner.after = func() { // the log has refused q; it is reset before the answer arrives
		n.inner.after = nil
		if _, err := n.Reset(t.Context(), q.LogID); err != nil {
			t.Error(err)
		}
	}
	if r := n.ask(q); r.Allowed {
		t.Fatalf("got %+v, want the refusal that came before the reset", r)
	}
	if r := n.ask(q); !r.Allowed {
		t.Errorf("got %+v, want it allowed", r)
	}
}

func TestBatchIsAnsweredInOrderWithAndWithoutTheCache(t *testing.T) {
	q := request(t, 1, "2/1h")
	n := newRefusing(t, q)
	requests := make([]timestamplog.Request, 9)
	for i := range requests {
		requests[i] = q
		if i%3 > 0 {
			requests[i].Key = fmt.Sprint("token:", i%3)
		}
	}
	results := make([]timestamplog.Result, len(requests))
	n.inner.asked = 0
	n.Decide(t.Context(), requests, results)
	for i, r := range results {
		if want := i%3 > 0 && i < 6; r.Allowed != want || r.FromCache != (i%3 == 0) {
			t.Errorf("request %d: got %+v", i, r)
		}
	}
	if n.inner.asked != 6 {
		t.Errorf("the log was asked %d times, want 6", n.inner.asked)
	}
}

func TestCacheIsBounded(t *testing.T) {
	const size = 10 * shardCount
	n := newNode(t, size)
	q := request(t, 1, "0/1h")
	for i := range 20 * size {
		q.Key = fmt.Sprint("token:", i)
		n.ask(q)
	}
	held := 0
	for i := range n.shards {
		held += n.shards[i].size()
	}
	if held > 2*size || held < size/2 {
		t.Errorf("%d keys are cached, want about %d and at most twice that", held, size)
	}
	n.fromCache(true, q)
}

func BenchmarkRemembered(b *testing.B) {
	clock := logtest.NewClock()
	log := New(memlog.New(memlog.Options{Now: clock.Now}), Options{})
	q := timestamplog.RequestOf(&rules.Policy{ID: 1, Version: 1, Rules: rules.Stack{{Limit: 0, Window: time.Hour}}}, "ip:203.0.113.7", 1)
	requests, results := []timestamplog.Request{q}, make([]timestamplog.Result, 1)
	b.ReportAllocs()
	for b.Loop() {
		log.Decide(b.Context(), requests, results)
	}
}
