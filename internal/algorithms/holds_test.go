package algorithms_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// heldModel keeps every charge and every hold.
type heldModel struct {
	rules []algorithms.Rule
	all   []*modelHold
	now   int64
}

// modelHold is a hold, or a charge, which was settled at once.
type modelHold struct {
	tag                    algorithms.Tag
	taken, amount, expires int64
	releases, isOver       bool // isOver: it was settled
}

// countsAt reports whether h's amount counts in a window at a time, if it is never settled from now on.
func (h *modelHold) countsAt(at int64, r algorithms.Rule) bool {
	switch {
	case !h.isOver && at < h.expires:
		return true
	case !h.isOver && h.releases:
		return false
	}
	if r.Calendar != nil {
		start, _ := r.Calendar.Period(at)
		return h.taken >= start
	}
	return h.taken+r.Window > at
}

func (m *heldModel) allows(at, cost, hold int64) bool {
	for _, r := range m.rules {
		total, open := cost, int64(1)
		for _, h := range m.all {
			if r.Window > 0 && h.countsAt(at, r) {
				total += h.amount
			}
			if !h.isOver && at < h.expires {
				open++
			}
		}
		if r.Window > 0 && total > r.Limit || r.Window == 0 && hold > 0 && open > r.Limit {
			return false
		}
	}
	return true
}

func (m *heldModel) settle(h *modelHold, used int64) (state algorithms.HoldState, over int64) {
	state, more := algorithms.HoldSettled, max(0, used-h.amount)
	if m.now >= h.expires {
		state = algorithms.HoldExpired
		if h.releases {
			h.amount, more = 0, used
		}
	} else {
		h.amount = min(h.amount, used)
	}
	h.isOver = true
	m.all = append(m.all, &modelHold{taken: m.now, amount: more, isOver: true})
	for _, r := range m.rules {
		total := int64(0)
		for _, h := range m.all {
			if r.Window > 0 && h.countsAt(m.now, r) {
				total += h.amount
			}
		}
		if r.Window > 0 {
			over = max(over, min(more, total-r.Limit))
		}
	}
	return state, over
}

// drawHeldRules draws a stack of windows and limits on open holds.
func drawHeldRules(t *rapid.T) []algorithms.Rule {
	rules := make([]algorithms.Rule, rapid.IntRange(1, 3).Draw(t, "rules"))
	for i := range rules {
		rules[i] = algorithms.Rule{
			Limit:  rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, 1_000)).Draw(t, "limit"),
			Window: rapid.SampledFrom([]int64{0, 1_000, 60_000, 3_600_000, calendarDay}).Draw(t, "window"),
		}
		if rules[i].Window == calendarDay {
			rules[i].Calendar, _ = algorithms.CalendarOf(algorithms.CalendarDay, rapid.SampledFrom(calendarZones).Draw(t, "zone"))
		}
	}
	return rules
}

// calendarDay is the window of a rule of the calendar: longer than any day.
const calendarDay = 27 * 3_600_000

// heldStep is one thing that a caller does.
type heldStep struct {
	step, cost, hold int64
	releases         bool
	settles          int // the index of a hold, -1 for a check
	extend           int64
}

func drawHeldStep(t *rapid.T, rules []algorithms.Rule, taken int) heldStep {
	largest := int64(1_000)
	for _, r := range rules {
		if r.Window > 0 {
			largest = min(largest, r.Limit)
		}
	}
	s := heldStep{
		step:     rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 5_000), rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 20_000_000)).Draw(t, "step"),
		cost:     rapid.Int64Range(1, largest).Draw(t, "cost"),
		hold:     rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(1, 200_000)).Draw(t, "hold"),
		releases: rapid.Bool().Draw(t, "releases"), settles: -1,
	}
	if taken > 0 && rapid.IntRange(0, 2).Draw(t, "settles") > 0 {
		s.settles = rapid.IntRange(max(0, taken-6), taken-1).Draw(t, "which")
		s.cost = rapid.OneOf(rapid.Just[int64](algorithms.AsHeld), rapid.Int64Range(0, 1_500)).Draw(t, "used")
		s.extend = rapid.OneOf(rapid.Just[int64](0), rapid.Just[int64](0), rapid.Int64Range(1, 200_000)).Draw(t, "extend")
	}
	return s
}

// What is charged and what is held never exceed a limit together at any admission, a wait is exact if
// nobody settles, and each hold is settled once, whatever the order of checks, settlements,
// extensions and expiries.
func TestHoldsAreAnsweredAsBruteForceAnswersThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &heldModel{rules: drawHeldRules(t), now: morning}
		stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), m.rules)
		var state algorithms.State
		var taken []*modelHold
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := drawHeldStep(t, m.rules, len(taken))
			m.now += s.step
			if s.settles >= 0 {
				m.compareSettled(t, stack, &state, taken[s.settles], s)
				continue
			}
			tag := algorithms.HoldTag(uint64(len(taken))*7919, s.releases)
			q := algorithms.Query{Now: m.now, Cost: s.cost, Hold: s.hold, Tag: tag}
			var detail []algorithms.RuleRemaining
			got := stack.Decide(&state, q, &detail)
			if want := m.allows(m.now, s.cost, s.hold); got.Allowed != want {
				t.Fatalf("a cost of %d is allowed: %v, want %v", s.cost, got.Allowed, want)
			}
			if !got.Allowed {
				if !m.allows(got.RetryAt, s.cost, s.hold) || m.allows(got.RetryAt-1, s.cost, s.hold) {
					t.Fatalf("RetryAt is %d ms ahead, which is not the first time at which the request is allowed", got.RetryAt-m.now)
				}
				continue
			}
			h := &modelHold{tag: tag, taken: m.now, amount: s.cost, expires: m.now + s.hold, releases: s.releases, isOver: s.hold == 0}
			if m.all = append(m.all, h); s.hold > 0 {
				taken = append(taken, h)
			}
		}
	})
}

func (m *heldModel) compareSettled(t *rapid.T, stack *algorithms.Stack, state *algorithms.State, h *modelHold, s heldStep) {
	wasOver := h.isOver
	got := stack.Settle(state, algorithms.Settlement{Tag: h.tag, Now: m.now, Cost: s.cost, Extend: s.extend})
	isForgotten := m.now >= h.expires+min(max(h.expires-h.taken, 60_000), 3_600_000)
	switch {
	case wasOver || isForgotten:
		if h.isOver = true; !wasOver && h.releases {
			h.amount = 0
		}
		if got.State != algorithms.HoldUnknown {
			t.Fatalf("a hold that was settled or is forgotten is %v", got)
		}
	case s.extend > 0 && m.now >= h.expires:
		if got.State != algorithms.HoldExpired {
			t.Fatalf("an expired hold is renewed: %v", got)
		}
	case s.extend > 0:
		if h.expires = max(h.expires, m.now+s.extend); got.State != algorithms.HoldOpen || got.Expires != h.expires {
			t.Fatalf("got %v, want a hold that expires at %d", got, h.expires)
		}
	default:
		used := s.cost
		if used < 0 {
			used = h.amount
		}
		held := h.amount
		want, over := m.settle(h, used)
		if got.State != want || got.Over != over || got.Held != held || got.Cost != used {
			t.Fatalf("settled with %d of %d: %+v, want state %v and %d over", used, held, got, want, over)
		}
	}
}

// A key has a bounded number of holds, open and expired ones together, and says so.
func TestHoldsOfAKeyAreBounded(t *testing.T) {
	rules := []algorithms.Rule{{Limit: algorithms.MaxAmount, Window: 60_000}, {Limit: 5_000}}
	stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), rules)
	var state algorithms.State
	hold := func(now int64, id uint64) algorithms.Result {
		return stack.Decide(&state, algorithms.Query{Now: now, Cost: 1, Hold: 10_000, Tag: algorithms.HoldTag(id, false)}, nil)
	}
	for i := range uint64(algorithms.MaxHolds) {
		if !hold(morning, i).Allowed {
			t.Fatalf("hold %d is refused", i)
		}
	}
	if got := hold(morning+1, 5_000); got.Allowed || !got.TooManyHolds || got.RetryAt != morning+10_000 {
		t.Fatalf("one more hold: %+v", got)
	}
	if got := stack.Decide(&state, algorithms.Query{Now: morning + 1, Cost: 1}, nil); !got.Allowed {
		t.Error("a request that holds nothing is refused")
	}
	for i := range uint64(algorithms.MaxHolds) {
		if !hold(morning+10_000, 10_000+i).Allowed {
			t.Fatalf("hold %d is refused after the others have expired", i)
		}
	}
	if holds, most := len(algorithms.Holds(state.Numbers, morning+10_000)), 1+4*algorithms.MaxHolds+3*3; holds != algorithms.MaxHolds || len(state.Numbers) > most {
		t.Errorf("%d open holds in %d numbers, want at most %d", holds, len(state.Numbers), most)
	}
}

// A clock that steps back shifts holds with the charges, so that it opens no limit.
func TestAClockThatStepsBackShiftsHolds(t *testing.T) {
	stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), []algorithms.Rule{{Limit: 10, Window: 60_000}})
	var state algorithms.State
	tag := algorithms.HoldTag(1, false)
	stack.Decide(&state, algorithms.Query{Now: morning, Cost: 10, Hold: 5_000, Tag: tag}, nil)
	now := int64(morning - 3_600_000)
	if got := stack.Decide(&state, algorithms.Query{Now: now, Cost: 1}, nil); got.Allowed || got.RetryAt != now+60_000 || !got.Changed {
		t.Fatalf("got %+v", got)
	}
	if got := stack.Settle(&state, algorithms.Settlement{Tag: tag, Now: now + 1, Cost: 4}); got.State != algorithms.HoldSettled {
		t.Fatalf("got %+v", got)
	}
	if got := stack.Decide(&state, algorithms.Query{Now: now + 2, Cost: 6}, nil); !got.Allowed {
		t.Errorf("what was returned is refused: %+v", got)
	}
}

// The Lua version keeps the same holds.
func TestLuaHoldsAsGoDoes(t *testing.T) {
	client := connect(t)
	script := redis.NewScript(algorithms.Lua() + `
local rules, state, at, out = {}, {}, 1, {}
local function number() at = at + 1 return tonumber(ARGV[at]) end
for i = 1, tonumber(ARGV[1]) do
  rules[i] = { limit = number(), window = number(), burst = 0 }
  for start in ARGV[at + 1]:gmatch('%d+') do
    rules[i].starts = rules[i].starts or {}
    table.insert(rules[i].starts, tonumber(start))
  end
  at = at + 1
end
local stack = engine.stack('amount_log', rules)
local function say(...)
  local list = { ... }
  for i = 1, #list do out[#out + 1] = string.format('%.0f', list[i]) end
end
while at < #ARGV do
  local now, cost, hold, tag, settles, extend = number(), number(), number(), number(), number(), number()
  if settles == 1 then
    say(engine.settle(stack, state, now, tag, cost, extend))
  else
    local _, retry, rule = engine.ask(stack, state, now, cost, 0, tag, hold)
    say(retry, rule)
    if retry == 0 then engine.add(stack, state, now, now, cost, '', tag, hold) end
    local list = {}
    engine.remaining(stack, state, now, cost, list)
    for i = 1, #list do say(list[i]) end
  end
  say(engine.ttl(stack, state, now), engine.room(stack, state, now))
  state = engine.read(engine.write(state))
  local numbers = engine.numbers(state)
  for i = 1, #numbers do say(numbers[i]) end
end
return table.concat(out, ' ')`)
	rapid.Check(t, func(t *rapid.T) {
		rules := drawHeldRules(t)
		args := []any{len(rules)}
		for _, r := range rules {
			starts := ""
			for at := int64(morning) - 2*calendarDay; r.Calendar != nil && at < morning+60*20_000_000; {
				_, end := r.Calendar.Period(at)
				start, _ := r.Calendar.Period(at)
				starts, at = starts+" "+strconv.FormatInt(start, 10), end
			}
			args = append(args, r.Limit, r.Window, starts)
		}
		stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), rules)
		var s sequence
		var tags []algorithms.Tag
		now := int64(morning)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := drawHeldStep(t, rules, len(tags))
			if now += step.step; rapid.IntRange(0, 30).Draw(t, "back") == 0 {
				now -= rapid.Int64Range(0, 100_000).Draw(t, "by")
			}
			if step.settles >= 0 {
				tag := tags[step.settles]
				args = append(args, now, step.cost, 0, uint64(tag), 1, step.extend)
				got := stack.Settle(&s.state, algorithms.Settlement{Tag: tag, Now: now, Cost: step.cost, Extend: step.extend})
				s.say(int64(got.State), got.Held, got.Cost, got.Over, got.Expires, got.Was)
			} else {
				tag := algorithms.HoldTag(uint64(len(tags))*7919, step.releases)
				args = append(args, now, step.cost, step.hold, uint64(tag), 0, 0)
				var detail []algorithms.RuleRemaining
				got := stack.Decide(&s.state, algorithms.Query{Now: now, Cost: step.cost, Hold: step.hold, Tag: tag}, &detail)
				s.say(got.RetryAt, int64(got.Rule+1))
				for _, has := range detail {
					s.say(has.Amount, has.Wait, has.Reset)
				}
				if got.Allowed && step.hold > 0 {
					tags = append(tags, tag)
				}
			}
			s.say(stack.TTL(&s.state, now))
			if room := stack.Room(&s.state, now); room == algorithms.Never {
				s.said = append(s.said, "9007199254740992")
			} else {
				s.say(room)
			}
			for _, n := range s.state.Numbers {
				s.said = append(s.said, strconv.FormatInt(n, 10))
			}
		}
		got, err := script.Run(context.Background(), client, nil, args...).Text()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, strings.Fields(got), s.said)
	})
}

// A hold in the middle of merged runs returns what was not used, and no window exceeds its limit.
func TestSettlingAmongMergedRunsReturnsAtItsOwnTime(t *testing.T) {
	stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), []algorithms.Rule{{Limit: 100_000, Window: 60_000}})
	var state algorithms.State
	tag := algorithms.HoldTag(1, false)
	for i := range int64(2_000) {
		q := algorithms.Query{Now: morning + i*20, Cost: 1}
		if i == 1_000 {
			q.Cost, q.Hold, q.Tag = 50_000, 600_000, tag
		}
		if !stack.Decide(&state, q, nil).Allowed {
			t.Fatalf("request %d is refused", i)
		}
	}
	now := int64(morning + 40_000)
	stack.Settle(&state, algorithms.Settlement{Tag: tag, Now: now, Cost: 10_000})
	if room := stack.Room(&state, now); room != 100_000-1_999-10_000 {
		t.Errorf("%d remain, want %d", room, 100_000-1_999-10_000)
	}
	if _, runs := state.Numbers[0], state.Numbers; !slices.IsSortedFunc(chunks(runs), func(a, b [3]int64) int { return int(a[1] - b[1]) }) {
		t.Error("the runs are not sorted")
	}
	if room := stack.Room(&state, morning+20_000+60_000+240); room < 100_000-1_000 {
		t.Errorf("%d remain after the window of the hold, 1/256 later", room)
	}
}

func chunks(numbers []int64) (all [][3]int64) {
	for ; len(numbers) >= 3; numbers = numbers[3:] {
		all = append(all, [3]int64(numbers))
	}
	return all
}
