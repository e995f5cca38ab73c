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

// twoNodes returns two nodes that share a Redis, and the node that has their clock.
func twoNodes(t *testing.T, p *rules.Policy) (first *node, nodes [2]*Gate) {
	t.Helper()
	server := servers.Redis(t)
	first = newNode(t, p)
	first.now.Store(time.Now().Add(time.Hour).UnixMilli())
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
	return first, nodes
}

// Two nodes share a Redis. Many callers stream, report at the end what they used, extend, or disappear:
// what the policies hold and charge never exceeds a limit, and no place is lost after the longest hold.
func TestManyHoldersOverTwoNodesNeverExceedALimit(t *testing.T) {
	const limit, places, hold = 20_000, 16, 20 * time.Second
	p := policy(t, 1, "tokens", "team:*", "", ofAmounts(t, fmt.Sprintf("%d concurrent", places), fmt.Sprintf("%d tokens/1h", limit)))
	p.Hold = hold
	first, nodes := twoNodes(t, p)
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

// stream is what one of many callers does: it streams for 1 to 60 s and renews its hold, or is killed.
type stream struct {
	random *rand.Rand
	*streamed
	ends time.Time
}

// streamed is what a model knows of a hold, and of what was used beyond one.
type streamed struct {
	handle         string
	amount         int
	taken, expires time.Time
}

// streams is a model of one key that keeps every hold and every charge.
type streams struct {
	mu            sync.Mutex
	all           []*streamed
	limit, places int
	window        time.Duration
}

// at returns what is charged and held at a time, and how many holds are open, if no hold is settled from now on.
func (m *streams) at(now time.Time) (total, open int) {
	for _, s := range m.all {
		isOpen := now.Before(s.expires)
		if isOpen {
			open++
		}
		if isOpen || now.Before(s.taken.Add(m.window)) {
			total += s.amount
		}
	}
	return total, open
}

// free returns the first time from now on at which a hold of an amount fits.
func (m *streams) free(now time.Time, amount int) (first time.Time) {
	times := []time.Time{now}
	for _, s := range m.all {
		times = append(times, s.expires, s.taken.Add(m.window))
	}
	for _, at := range times {
		total, open := m.at(at)
		if !at.Before(now) && total+amount <= m.limit && open < m.places && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Streams of 1 to 60 s of the log's clock that 64 callers hold at two nodes: at no check is more charged and held than the
// policy allows; each wait is true; a killed holder keeps its place until its hold expires, and no longer.
func TestStreamsOfAMinuteNeverExceedALimitAndWaitsAreTrue(t *testing.T) {
	const hold = 20 * time.Second
	m := &streams{limit: 6000, places: 16, window: 2 * time.Minute}
	p := policy(t, 1, "tokens", "team:*", "", ofAmounts(t, "16 concurrent", "6000 tokens/2m"))
	p.Hold = hold
	first, nodes := twoNodes(t, p)
	ask := func(g *Gate, c Check) Decision {
		c.Key = key(t, "team:a")
		var d [1]Decision
		var err [1]error
		if g.Decide(t.Context(), []Check{c}, d[:], err[:]); err[0] != nil {
			t.Error(err[0])
		}
		return d[0]
	}
	callers := make([]stream, 64)
	for i := range callers {
		callers[i].random = rand.New(rand.NewPCG(uint64(i), 49)) //nolint:gosec // a test
	}
	together := func(do func(c *stream, g *Gate, now time.Time)) {
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() { do(&callers[i], nodes[callers[i].random.IntN(2)], first.clock()) })
		}
		group.Wait()
	}
	admitted, refused, lost, overrun := 0, map[int]int{}, 0, 0
	check := func(c *stream, g *Gate, now time.Time) {
		estimate := 1 + c.random.IntN(400)
		if c.streamed != nil || c.random.IntN(4) > 0 {
			return
		}
		d := ask(g, Check{Cost: estimate})
		if d.Outcome != Allowed {
			return
		}
		c.streamed = &streamed{d.Hold.Handle, estimate, now, now.Add(hold)}
		c.ends = now.Add(time.Duration(1+c.random.IntN(60)) * time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.all = append(m.all, c.streamed)
		admitted++
	}
	end := func(c *stream, g *Gate, now time.Time) {
		s := c.streamed
		switch {
		case s == nil:
		case c.random.IntN(120) == 0: // it is killed
			c.streamed = nil
			m.mu.Lock()
			lost++
			m.mu.Unlock()
		case !now.Before(c.ends):
			c.streamed = nil
			used := c.random.IntN(s.amount*5/4 + 1)
			if settled, err := g.Settle(t.Context(), s.handle, int64(used)); err != nil || settled.Held != s.amount || settled.Cost != used {
				t.Errorf("settled %+v, %v, want %d of %d", settled, err, used, s.amount)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if more := used - s.amount; more > 0 {
				m.all = append(m.all, &streamed{amount: more, taken: now, expires: now})
				overrun++
			}
			s.amount, s.expires = min(used, s.amount), now
		case now.Add(hold * 2 / 3).After(s.expires):
			if _, err := g.Extend(t.Context(), s.handle, hold); err != nil {
				t.Error(err)
			}
			s.expires = now.Add(hold)
		}
	}
	for range 300 {
		first.advance(time.Second)
		before := admitted
		together(check)
		total, open := m.at(first.clock())
		if admitted > before && (total > m.limit || open > m.places) {
			t.Fatalf("%d are charged and held and %d open, want at most %d and %d", total, open, m.limit, m.places)
		}
		together(end)
		for _, g := range nodes {
			amount := 1 + callers[0].random.IntN(400)
			d, want := ask(g, Check{Cost: amount, Hold: hold, Peek: true}), m.free(first.clock(), amount)
			if isFree := want.Equal(first.clock()); (d.Outcome == Allowed) != isFree || !isFree && !d.RetryAt.Equal(want) {
				t.Fatalf("%d at %s: %v until %s, want %s", amount, first.clock(), d.Outcome, d.RetryAt, want)
			}
			if d.Outcome != Allowed {
				refused[d.Rule]++
			}
		}
	}
	if admitted < 100 || lost == 0 || overrun == 0 || len(refused) != 2 {
		t.Errorf("%d were admitted, %d killed, %d used more, and rules refused %v: the load is no test", admitted, lost, overrun, refused)
	}
	first.advance(hold)
	total, _ := m.at(first.clock())
	x, err := nodes[0].Explain(t.Context(), key(t, "team:a"), "")
	if err != nil || x.Enforcing.Rules[0].Used != 0 || x.Enforcing.Rules[1].Used != total {
		t.Fatalf("after the longest hold: %+v, %v, want %d charged and no place taken", x.Enforcing.Rules, err, total)
	}
}
