package redislog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/testenv"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/logtest"
)

// countedPolicies numbers the policies of this test, apart from the suite's.
var countedPolicies int64 = 1_000_000

// Redis counts in Lua and keeps the numbers itself; what it answers must be what
// the algorithm's half in Go answers that keeps them at hand.
func TestCountersAnswerAsTheirHalvesInGo(t *testing.T) {
	server := testenv.Redis(t)
	for _, a := range algorithms.All() {
		if a.IsLog() {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			h := newExpiring(t, server)
			rapid.Check(t, func(rt *rapid.T) {
				h.Clock.Set(logtest.Start.UnixMilli())
				newCounted(t, rt, h, a).run()
			})
		})
	}
}

// counted takes random actions on one key of a policy and on a State in Go.
type counted struct {
	*testing.T
	rt     *rapid.T
	clock  *logtest.Clock
	log    *expiring
	policy *rules.Policy
	stack  *algorithms.Stack
	state  algorithms.State
	// interest is the instant that the last answer named, turns are those that
	// were allowed under an ID, by which ids finds when.
	interest int64
	turns    []timestamplog.Turn
	ids      map[string]int64
	named    int
}

func newCounted(t *testing.T, rt *rapid.T, h logtest.Harness, a *algorithms.Algorithm) *counted {
	countedPolicies++
	c := &counted{T: t, rt: rt, clock: h.Clock, log: h.Log.(*expiring), ids: map[string]int64{}}
	c.policy = policy(t, countedPolicies, rapid.SampledFrom([][]string{
		{"1/1s"}, {"3/1s", "5/1m"}, {"2/10ms", "7/1h"}, {"1/1s", "4/1m", "900/1d"}, {"2/31d"}, {"0/1s", "5/1m"}, {"100000/1h"},
	}).Draw(rt, "stack")...)
	c.policy.Algorithm = a.Name
	o := &c.policy.Options
	if a.Takes(algorithms.OptionBurst) {
		o.Burst = rapid.SampledFrom([]int{0, 1, 4}).Draw(rt, "burst")
	}
	if a.Takes(algorithms.OptionWindowStart) {
		o.WindowStart = rapid.SampledFrom([]string{"", algorithms.WindowFirst}).Draw(rt, "window start")
	}
	if a.Takes(algorithms.OptionAs) {
		o.As = rapid.SampledFrom([]string{"", algorithms.AsQueue}).Draw(rt, "as")
	}
	var counts []algorithms.Rule
	for _, r := range c.policy.Rules {
		counts = append(counts, algorithms.Rule{Limit: int64(r.Limit), Window: r.WindowMS(), Options: *o})
	}
	c.stack = algorithms.NewStack(a, counts)
	return c
}

func (c *counted) run() {
	actions := []func(){c.decide, c.decide, c.decide, c.decide, c.advance, c.advance, c.giveBack, c.stepBack, c.reset}
	names := []string{"decide", "decide", "decide", "decide", "advance", "advance", "give back", "step back", "reset"}
	for range rapid.IntRange(5, 60).Draw(c.rt, "steps") {
		at := rapid.IntRange(0, len(actions)-1).Draw(c.rt, "action")
		c.rt.Log(names[at])
		actions[at]()
	}
}

func (c *counted) draw() timestamplog.Request {
	q := timestamplog.RequestOf(c.policy, address, rapid.IntRange(1, min(5, c.policy.Rules.LargestCost())).Draw(c.rt, "cost"))
	q.Peek = rapid.IntRange(0, 6).Draw(c.rt, "peek") == 6
	q.Detail = rapid.Bool().Draw(c.rt, "detail")
	if rapid.Bool().Draw(c.rt, "waits") {
		q.MaxWait = rapid.SampledFrom([]int64{1, 10, 1000, 60_000, timestamplog.MaxWait}).Draw(c.rt, "longest wait")
	}
	if !q.Peek && (q.MaxWait > 0 || rapid.IntRange(0, 5).Draw(c.rt, "named") == 5) {
		c.named++
		q.ID = fmt.Sprint("request ", c.named)
		if len(c.turns) > 0 && rapid.IntRange(0, 6).Draw(c.rt, "again") == 6 {
			q.ID = rapid.SampledFrom(c.turns).Draw(c.rt, "which").ID
		}
	}
	return q
}

func (c *counted) decide() {
	q := c.draw()
	results := make([]timestamplog.Result, 1)
	if rapid.IntRange(0, 3).Draw(c.rt, "together") == 3 {
		if err := c.log.DecideAll(c.Context(), []timestamplog.Request{q}, results); err != nil {
			c.rt.Fatal(err)
		}
	} else {
		c.log.Decide(c.Context(), []timestamplog.Request{q}, results)
	}
	want := c.want(q)
	got := results[0]
	c.interest = max(want.RetryAt, want.Turn)
	same := got.Err == nil && got.Allowed == want.Allowed && got.Turn == want.Turn && got.Repeated == want.Repeated && got.RetryAt == want.RetryAt &&
		got.Rule == want.Rule && got.Boundary == 0 && got.Now == want.Now && slices.Equal(got.States, want.States)
	if !same {
		c.rt.Fatalf("cost %d peek %v max wait %d id %q under %v %+v:\n got %+v\nwant %+v", q.Cost, q.Peek, q.MaxWait, q.ID, c.policy.Rules, c.policy.Options, got, want)
	}
}

func (c *counted) want(q timestamplog.Request) timestamplog.Result {
	now := c.clock.NowMS()
	r := timestamplog.Result{Allowed: true, Now: now, Rule: -1}
	var remaining []algorithms.Remaining
	state := c.state.Clone() // what changes nothing is not kept in Redis
	if turn, known := c.ids[q.ID]; known && now < turn+timestamplog.IDLifetime {
		r.Turn, r.Repeated = turn, true
		remaining = c.stack.Remaining(nil, &state, now, int64(q.Cost))
	} else {
		v := c.stack.Decide(&state, algorithms.Question{Now: now, Cost: int64(q.Cost), MaxWait: q.MaxWait, Peek: q.Peek, ID: q.ID}, &remaining)
		r.Allowed, r.RetryAt, r.Rule = v.Allowed, v.RetryAt, v.Rule
		if v.Changed {
			c.state = state
		}
		if r.Allowed {
			r.Turn = v.Turn
		}
		if r.Allowed && q.ID != "" {
			c.ids[q.ID] = v.Turn
			c.turns = append(c.turns, timestamplog.Turn{Ref: q.Ref, At: v.Turn, Cost: q.Cost, ID: q.ID})
		}
	}
	for _, left := range remaining {
		if q.Detail {
			r.States = append(r.States, timestamplog.RuleState{Remaining: int(left.Left), ResetMS: left.Wait})
		}
	}
	return r
}

func (c *counted) giveBack() {
	if len(c.turns) == 0 {
		return
	}
	turn := rapid.SampledFrom(c.turns).Draw(c.rt, "turn")
	got, err := c.log.GiveBack(c.Context(), turn)
	want := false
	if turn.At > c.clock.NowMS() && c.ids[turn.ID] == turn.At {
		want = c.state.GiveBack(c.clock.NowMS(), turn.At, turn.ID)
		delete(c.ids, turn.ID)
	}
	if err != nil || got != want {
		c.rt.Fatalf("GiveBack(%+v): %v, %v, want %v", turn, got, err, want)
	}
}

func (c *counted) advance() {
	steps := []int64{1, 10, 500, 1000, 59_000, rapid.Int64Range(0, 20_000).Draw(c.rt, "ms")}
	if ahead := c.interest - c.clock.NowMS(); ahead > 0 && ahead < 40*day.Milliseconds() {
		steps = append(steps, ahead, ahead-1, ahead, ahead-1)
	}
	c.clock.Advance(time.Duration(rapid.SampledFrom(steps).Draw(c.rt, "advance")) * time.Millisecond)
}

// IDs and turns of before are not asked about again: what is known of them once
// their time has passed twice is not promised. What has expired is gone first.
func (c *counted) stepBack() {
	settled := c.state.Clone() // Lasts brings it to now
	if c.stack.Lasts(&settled, c.clock.NowMS()) == 0 {
		c.reset()
	}
	c.ids, c.turns = map[string]int64{}, nil
	c.clock.Advance(-time.Duration(rapid.SampledFrom([]int64{1, 50, 1000, 60_000, 3_600_000, 3_700_000}).Draw(c.rt, "back")) * time.Millisecond)
}

func (c *counted) reset() {
	if _, err := c.log.Reset(c.Context(), timestamplog.RefOf(c.policy, address)); err != nil {
		c.rt.Fatal(err)
	}
	c.state, c.ids = algorithms.State{}, map[string]int64{}
}
