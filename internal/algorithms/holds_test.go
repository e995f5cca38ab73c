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
	if holds, most := len(algorithms.Holds(state.Numbers, morning+10_000)), 1+5*algorithms.MaxHolds+3*3; holds != algorithms.MaxHolds || len(state.Numbers) > most {
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
    local became, held, used, over, expires, was, changed = engine.settle(stack, state, now, tag, cost, extend)
    say(became, held, used, over, expires, was, became == 0 and changed and 1 or 0)
  else
    local _, retry, rule, changed = engine.ask(stack, state, now, cost, 0, tag, hold)
    say(retry, rule, (changed or retry == 0) and 1 or 0)
    if retry == 0 then engine.add(stack, state, now, now, cost, '', tag, hold, tag % 1000) end
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
				s.say(int64(got.State), got.Held, got.Cost, got.Over, got.Expires, got.Was, asNumber(got.State == algorithms.HoldUnknown && got.Changed))
			} else {
				tag := algorithms.HoldTag(uint64(len(tags))*7919, step.releases)
				args = append(args, now, step.cost, step.hold, uint64(tag), 0, 0)
				var detail []algorithms.RuleRemaining
				got := stack.Decide(&s.state, algorithms.Query{Now: now, Cost: step.cost, Hold: step.hold, Tag: tag, Source: int64(tag % 1000)}, &detail)
				s.say(got.RetryAt, int64(got.Rule+1), asNumber(got.Changed))
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

// A key with as many orphaned holds as it may have, and after them as many runs as are kept apart, whose
// budget is full.
const (
	orphans      = algorithms.MaxHolds
	laterCharges = 1_000
	orphansEnded = morning + 70_000
)

var orphanRules = []algorithms.Rule{{Limit: orphans + laterCharges, Window: 3_600_000}}

func orphanQuery(i int64) algorithms.Query {
	if i < orphans {
		return algorithms.Query{Now: morning + i, Cost: 1, Hold: 60_000, Tag: algorithms.HoldTag(uint64(i), false)} //nolint:gosec // small
	}
	return algorithms.Query{Now: morning + 2_000 + 7*i, Cost: 1}
}

// Holds that have expired are ended once: the refusal that does it stores it.
func TestARefusedCheckEndsExpiredHoldsOnce(t *testing.T) {
	stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), orphanRules)
	var state algorithms.State
	for i := range int64(orphans + laterCharges) {
		if !stack.Decide(&state, orphanQuery(i), nil).Allowed {
			t.Fatalf("request %d is refused", i)
		}
	}
	refuse := func(now int64, changed bool) []int64 {
		t.Helper()
		if got := stack.Decide(&state, algorithms.Query{Now: now, Cost: 1}, nil); got.Allowed || got.Changed != changed {
			t.Fatalf("at +%d: %+v, want it refused and Changed %v", now-morning, got, changed)
		}
		return slices.Clone(state.Numbers)
	}
	refuse(morning+59_999, false)
	ended := refuse(orphansEnded, true)
	if !slices.Equal(ended, refuse(orphansEnded+1, false)) {
		t.Error("the second refusal changes the state")
	}
	if room := stack.Room(&state, orphansEnded); room != 0 || len(algorithms.Holds(state.Numbers, orphansEnded)) != 0 {
		t.Errorf("%d remain after the holds have ended, want that they keep what they held", room)
	}
	refuse(morning+200_000, true) // it forgets them
	if refuse(morning+200_001, false); algorithms.HasHolds(state.Numbers) {
		t.Error("the holds are not forgotten")
	}
}

// Lua ends them in one pass over the runs, which it does not repeat either, and stores what Go stores.
func TestLuaEndsExpiredHoldsInOnePass(t *testing.T) {
	client := connect(t)
	script := redis.NewScript(`
local steps, of = 0, struct
local struct = {
  pack = function(...) steps = steps + 1 return of.pack(...) end,
  unpack = function(...) steps = steps + 1 return of.unpack(...) end,
}
` + algorithms.Lua() + `
local stack, state = engine.stack('amount_log', { { limit = tonumber(ARGV[1]), window = tonumber(ARGV[2]), burst = 0 } }), {}
for i = 4, #ARGV, 4 do
  local now, cost, hold, tag = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local _, retry = engine.ask(stack, state, now, cost, 0, tag, hold)
  if retry == 0 then engine.add(stack, state, now, now, cost, '', tag, hold) end
end
local out = {}
for i = 1, 2 do
  state, steps = engine.read(engine.write(state)), 0
  local _, retry, _, changed = engine.ask(stack, state, tonumber(ARGV[3]), 1, 0)
  out[#out + 1] = string.format('%d %d %d', retry == 0 and 1 or 0, changed and 1 or 0, steps)
end
local numbers = engine.numbers(state)
for i = 1, #numbers do out[#out + 1] = string.format('%.0f', numbers[i]) end
return table.concat(out, ' ')`)
	stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), orphanRules)
	var s sequence
	args := []any{orphanRules[0].Limit, orphanRules[0].Window, int64(orphansEnded)}
	for i := range int64(orphans + laterCharges) {
		q := orphanQuery(i)
		stack.Decide(&s.state, q, nil)
		args = append(args, q.Now, q.Cost, q.Hold, uint64(q.Tag))
	}
	stack.Decide(&s.state, algorithms.Query{Now: orphansEnded, Cost: 1}, nil)
	for _, n := range s.state.Numbers {
		s.said = append(s.said, strconv.FormatInt(n, 10))
	}
	said, err := script.Run(t.Context(), client, nil, args...).Text()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(said)
	for i, most := range []int{(orphans + laterCharges) / 2, 100} {
		steps, err := strconv.Atoi(got[3*i+2])
		if changed := strconv.Itoa(1 - i); err != nil || got[3*i] != "0" || got[3*i+1] != changed || steps > most {
			t.Errorf("refusal %d: allowed, changed, and texts of runs read or written are %v, want 0, %s and at most %d", i+1, got[3*i:3*i+3], changed, most)
		}
	}
	if got = got[6:]; !slices.Equal(got, s.said) {
		t.Errorf("Lua keeps %d numbers, and Go %d, or others", len(got), len(s.said))
	}
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
