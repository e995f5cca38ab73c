package gate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// ofAmounts gives a policy these rules, under the log of amounts.
func ofAmounts(t testing.TB, texts ...string) func(*rules.Policy) {
	t.Helper()
	stack, err := rules.ParseStack(texts)
	if err != nil {
		t.Fatal(err)
	}
	return func(p *rules.Policy) { p.Rules, p.Algorithm = stack, algorithms.AmountLog }
}

func withHold(hold time.Duration) func(*Check) { return func(c *Check) { c.Hold = hold } }

func wantFault(t *testing.T, err error, code fault.Code, text string) {
	t.Helper()
	if !fault.Is(err, code) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s: %s", err, code, text)
	}
}

func TestHoldsAreSettledByTheirHandle(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		left := func(key string) int {
			return n.check(t, key, withCost(1), func(c *Check) { c.Peek, c.Detail = true, true }).States[0].Remaining
		}
		d := n.check(t, "team:a", withCost(700), withHold(10*time.Minute))
		if !d.Allowed() || d.Hold.Handle == "" || !d.Hold.Expires.Equal(n.clock().Add(10*time.Minute)) {
			t.Fatalf("got %+v", d)
		}
		if refused := n.check(t, "team:a", withCost(400), withHold(time.Minute)); refused.Allowed() || refused.Hold.Handle != "" || refused.RetryAfter() != 24*time.Hour {
			t.Errorf("beyond the limit: %s, wait %s", refused.Outcome, refused.RetryAfter())
		}
		n.advance(time.Minute)
		for range 2 { // it may be repeated
			s, err := n.Settle(t.Context(), d.Hold.Handle, 300)
			if err != nil || s.Held != 700 || s.Cost != 300 || s.Over != 0 {
				t.Fatalf("settled %+v, %v", s, err)
			}
		}
		if left("team:a") != 700 {
			t.Errorf("%d are left", left("team:a"))
		}
		_, err := n.Settle(t.Context(), d.Hold.Handle, 301)
		wantFault(t, err, fault.Settled, "settled already")
		_, err = n.Extend(t.Context(), d.Hold.Handle, time.Minute)
		wantFault(t, err, fault.Settled, "settled already")
		more := n.check(t, "team:a", withCost(600), withHold(time.Minute))
		if s, err := n.Settle(t.Context(), more.Hold.Handle, 900); err != nil || s.Over != 200 {
			t.Errorf("used more: %+v, %v", s, err)
		}
		if d := n.check(t, "team:a"); d.Allowed() {
			t.Error("an overrun is forgotten")
		}
		// Released: nothing stays.
		d = n.check(t, "team:b", withCost(1000), withHold(time.Minute))
		if s, err := n.Extend(t.Context(), d.Hold.Handle, time.Hour); err != nil || !s.Expires.Equal(n.clock().Add(time.Hour)) {
			t.Errorf("extended %+v, %v", s, err)
		}
		n.advance(30 * time.Minute)
		if _, err := n.Settle(t.Context(), d.Hold.Handle, 0); err != nil || left("team:b") != 1000 {
			t.Errorf("released: %v, %d are left", err, left("team:b"))
		}
		// Expired: the estimate stays, and what was used beyond it is charged.
		d = n.check(t, "team:b", withCost(100), withHold(time.Second))
		n.advance(time.Second)
		_, err = n.Settle(t.Context(), d.Hold.Handle, 150)
		wantFault(t, err, fault.Expired, "has expired")
		if left("team:b") != 850 {
			t.Errorf("%d are left after a late settlement", left("team:b"))
		}
		for _, foreign := range []string{"", "x", d.Hold.Handle + "A", d.Hold.Handle[1:]} {
			_, err = n.Settle(t.Context(), foreign, 1)
			wantFault(t, err, fault.NotFound, "not the handle")
		}
		n.advance(48 * time.Hour)
		_, err = n.Settle(t.Context(), d.Hold.Handle, 150)
		wantFault(t, err, fault.Expired, "no longer known")
	}, policy(t, 1, "tokens", "team:*", "", ofAmounts(t, "1000 tokens/1d")))
}

// What a door holds for if its caller says nothing is less than what the policy says.
func TestHoldsLastAsThePolicySays(t *testing.T) {
	held := policy(t, 1, "tokens", "team:*", "", ofAmounts(t, "1000 tokens/1d"), func(p *rules.Policy) { p.Hold = 10 * time.Second })
	n := newNode(t, held, policy(t, 2, "rows", "user:*", "", ofAmounts(t, "1000 rows/1d")), policy(t, 3, "requests", "ip:*", "5/1m"))
	for name, want := range map[string]time.Duration{"team:a": 10 * time.Second, "user:u": time.Minute} {
		if d := n.check(t, name, func(c *Check) { c.HoldElse = time.Minute }); !d.Hold.Expires.Equal(n.clock().Add(want)) {
			t.Errorf("%s is held until %s, not for %s", name, d.Hold.Expires, want)
		}
		if d := n.check(t, name, withHold(time.Hour), func(c *Check) { c.HoldElse = time.Minute }); !d.Hold.Expires.Equal(n.clock().Add(time.Hour)) {
			t.Errorf("%s is held until %s, not for what the check says", name, d.Hold.Expires)
		}
	}
	_, err := n.Check(t.Context(), Check{Key: key(t, "ip:203.0.113.7"), HoldElse: time.Minute})
	wantFault(t, err, fault.Invalid, "counts requests")
}

// holdEnds records what becomes of holds.
type holdEnds struct {
	Discard
	results []string
}

func (e *holdEnds) RecordHold(end *HoldEnd) { e.results = append(e.results, end.Result) }

// A hold that expired is counted once, however often its holder has tried to renew it before it settles.
func TestAnExpiredHoldIsCountedOnce(t *testing.T) {
	ends := &holdEnds{}
	n := newNode(t, policy(t, 1, "tokens", "team:*", "", ofAmounts(t, "1000 tokens/1d")))
	n.Gate = New(Options{View: n, Log: n.Gate.log, Recorder: ends, Now: n.clock})
	d := n.check(t, "team:a", withCost(100), withHold(time.Minute))
	n.advance(time.Minute)
	for range 2 {
		_, err := n.Extend(t.Context(), d.Hold.Handle, time.Minute)
		wantFault(t, err, fault.Expired, "has expired")
	}
	for range 2 {
		_, err := n.Settle(t.Context(), d.Hold.Handle, 150)
		wantFault(t, err, fault.Expired, "has expired")
	}
	if len(ends.results) != 1 || ends.results[0] != "expired" {
		t.Errorf("it is counted as %q", ends.results)
	}
}

func TestSeveralKeysAreHeldAndSettledTogether(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		checks := func(cost int) []Check {
			return []Check{{Key: key(t, "team:a"), Cost: cost, Hold: time.Minute}, {Key: key(t, "user:u"), Cost: cost, Hold: time.Minute}, {Key: key(t, "ip:203.0.113.7"), Hold: time.Minute}}
		}
		j, err := n.DecideAll(t.Context(), checks(400))
		if err != nil || !j.Allowed() || j.Hold.Handle == "" {
			t.Fatalf("got %+v, %v", j, err)
		}
		if refused, err := n.DecideAll(t.Context(), checks(200)); err != nil || refused.Allowed() || refused.Hold.Handle != "" {
			t.Fatalf("one key is full: %+v, %v", refused, err)
		}
		if _, err := n.Settle(t.Context(), j.Hold.Handle, 100); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{"team:a": 100, "user:u": 100} {
			if x, err := n.Explain(t.Context(), key(t, text), ""); err != nil || x.Enforcing.Rules[0].Used != want || len(x.Enforcing.Holds) != 0 {
				t.Errorf("%s: used %+v, %v, want %d", text, x.Enforcing.Rules, err, want)
			}
		}
	}, policy(t, 1, "teams", "team:*", "", ofAmounts(t, "1000 tokens/1d")), policy(t, 2, "users", "user:*", "", ofAmounts(t, "500 tokens/1d")), policy(t, 3, "default", "*", "5/m"))
}

func TestWhatIsConcurrentIsLimited(t *testing.T) {
	exports := policy(t, 1, "exports", "user:*", "", ofAmounts(t, "2 concurrent", "100/1h"))
	exports.Hold = 30 * time.Second
	trial := policy(t, 2, "trial", "user:*", "", ofAmounts(t, "1 concurrent"), mode(rules.Shadow))
	trial.Hold = 30 * time.Second
	onEveryLog(t, func(t *testing.T, n *node) {
		first, second := n.check(t, "user:u"), n.check(t, "user:u")
		if !second.Allowed() || second.Hold.Handle == "" || second.Shadow == nil || second.Shadow.Outcome != Limited {
			t.Fatalf("the second: %+v", second)
		}
		n.advance(10 * time.Second)
		third := n.check(t, "user:u")
		if rule, _ := third.DecidingRule(); third.Allowed() || !rule.IsConcurrent() || third.RetryAfter() != 20*time.Second {
			t.Fatalf("the third: %s, wait %s", third.Outcome, third.RetryAfter())
		}
		if _, err := n.Settle(t.Context(), first.Hold.Handle, AsHeld); err != nil {
			t.Fatal(err)
		}
		if d := n.check(t, "user:u"); !d.Allowed() || d.Shadow.Outcome != Allowed {
			t.Errorf("after one was settled: %+v", d)
		}
		n.advance(30 * time.Second) // nobody settles
		if x, err := n.Explain(t.Context(), key(t, "user:u"), ""); err != nil || x.Enforcing.Rules[0].Used != 0 || x.Enforcing.Rules[1].Used != 3 {
			t.Errorf("after the holds expired: %+v, %v", x.Enforcing, err)
		}
	}, exports, trial)
}

func TestAPolicyNamesTheCostOfChecksThatSayNone(t *testing.T) {
	tokens := policy(t, 1, "tokens", "team:*", "", ofAmounts(t, "1000 tokens/1d"))
	tokens.Cost = 400
	n := newNode(t, tokens, policy(t, 2, "default", "*", "5/m"))
	for i, want := range []Outcome{Allowed, Allowed, Limited} {
		if d := n.check(t, "team:a", withCost(0)); d.Outcome != want || d.Check.Cost != 400 {
			t.Errorf("check %d: %s, cost %d", i, d.Outcome, d.Check.Cost)
		}
	}
	if d := n.check(t, "ip:203.0.113.7", withCost(0), func(c *Check) { c.Detail = true }); d.States[0].Remaining != 4 {
		t.Errorf("a check of requests: %+v", d.States)
	}
	_, err := n.Check(t.Context(), Check{Key: key(t, "ip:203.0.113.7"), Hold: time.Minute})
	wantFault(t, err, fault.Invalid, "hold: cannot be granted")
}

// A check with an idempotency key that is sent again holds once and has the same handle.
func TestARepeatedCheckHoldsOnce(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		id := func(c *Check) { c.ID = "request-1" }
		first := n.check(t, "team:a", withCost(700), withHold(time.Minute), id)
		n.advance(time.Second)
		again := n.check(t, "team:a", withCost(700), withHold(time.Minute), id)
		if !again.Replayed || again.Hold != first.Hold {
			t.Errorf("got %+v, want the hold of %+v", again.Hold, first.Hold)
		}
		if _, err := n.Settle(t.Context(), again.Hold.Handle, 0); err != nil {
			t.Fatal(err)
		}
		if d := n.check(t, "team:a", withCost(1000)); !d.Allowed() {
			t.Error("something is still held")
		}
	}, policy(t, 1, "tokens", "team:*", "", ofAmounts(t, "1000 tokens/1d")))
}

// Two nodes share a Redis. Many callers stream, report at the end what they used, extend, or disappear:
// what the policies hold and charge never exceeds a limit, and no place is lost after the longest hold.
func TestManyHoldersOverTwoNodesNeverExceedALimit(t *testing.T) {
	const limit, places, hold = 20_000, 16, 20 * time.Second
	p := policy(t, 1, "tokens", "team:*", "", ofAmounts(t, fmt.Sprintf("%d concurrent", places), fmt.Sprintf("%d tokens/1h", limit)))
	p.Hold = hold
	server := servers.Redis(t)
	first := newNode(t, p)
	first.now.Store(time.Now().Add(time.Hour).UnixMilli())
	nodes := make([]*Gate, 2)
	for i := range nodes {
		log, err := redislog.Open(server.URL, redislog.Options{Clock: first.clock, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		local := memlog.New(memlog.Options{Now: first.clock})
		t.Cleanup(func() { local.Close() })
		nodes[i] = New(Options{View: first, Log: log, Local: local, Deadline: time.Minute, Now: first.clock})
	}
	var mu sync.Mutex
	open, charged := 0, 0 // what callers know of: never more than the log does
	var callers sync.WaitGroup
	for caller := range uint64(64) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(caller, 7)) //nolint:gosec // a test
			for range 6 {
				estimate := 1 + random.IntN(400)
				var d [1]Decision
				var err [1]error
				nodes[caller%2].Decide(t.Context(), []Check{{Key: key(t, "team:a"), Cost: estimate, Hold: hold}}, d[:], err[:])
				if err[0] != nil {
					t.Error(err[0])
					return
				}
				if d[0].Outcome != Allowed {
					continue
				}
				mu.Lock()
				open, charged = open+1, charged+estimate
				if open > places || charged > limit {
					t.Errorf("%d are open and %d charged or held", open, charged)
				}
				used := random.IntN(estimate + 1)
				isLost := random.IntN(5) == 0
				if open--; !isLost {
					charged += used - estimate
				}
				mu.Unlock()
				if isLost {
					continue // the holder is killed
				}
				if s, err := nodes[random.IntN(2)].Settle(t.Context(), d[0].Hold.Handle, int64(used)); err != nil || s.Cost != used {
					t.Errorf("settled %+v, %v", s, err)
				}
			}
		})
	}
	callers.Wait()
	first.advance(hold)
	x, err := nodes[0].Explain(t.Context(), key(t, "team:a"), "")
	if err != nil || x.Enforcing.Rules[0].Used != 0 || x.Enforcing.Rules[1].Used != charged {
		t.Fatalf("after the longest hold: %+v, %v, want %d charged and no place taken", x.Enforcing.Rules, err, charged)
	}
}
