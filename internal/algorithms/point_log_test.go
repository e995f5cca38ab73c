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

// pointed is one request under the log of points.
type pointed struct {
	now, points int64
	item        uint32
	value       uint64
	forgives    bool
}

func (p pointed) tag() algorithms.Tag {
	if p.forgives {
		return algorithms.Forgive(p.item)
	}
	return algorithms.TagOf(p.item, p.value)
}

func drawPointed(t *rapid.T) (rules []algorithms.Rule, requests []pointed) {
	for range rapid.IntRange(1, 3).Draw(t, "rules") {
		rules = append(rules, algorithms.Rule{Limit: rapid.Int64Range(1, 40).Draw(t, "limit"), Window: rapid.SampledFrom([]int64{1, 100, 3_600_000}).Draw(t, "window")})
	}
	now := int64(morning)
	for range rapid.IntRange(1, 80).Draw(t, "requests") {
		now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100), rapid.Int64Range(0, 3_600_000)).Draw(t, "step")
		requests = append(requests, pointed{
			now: now, points: rapid.Int64Range(1, 12).Draw(t, "points"), item: rapid.SampledFrom([]uint32{0, 7, algorithms.MaxItem}).Draw(t, "item"),
			value: rapid.SampledFrom([]uint64{0, 0, 1, 2, 1<<64 - 1}).Draw(t, "value"), forgives: rapid.IntRange(0, 7).Draw(t, "forgives") == 0,
		})
	}
	return rules, requests
}

// charged is what the model keeps of a charge.
type charged struct {
	at, points int64
	item       uint32
	value      uint64
}

// A model that keeps every charge answers as the log of points does: whether a request is allowed, when
// it would be, how much is charged of one that is not, each value once within the longest window, and
// what is forgiven, the newest first and of one item only.
func TestPointsAreThoseOfAModelThatKeepsEveryCharge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, requests := drawPointed(t)
		stack := algorithms.NewStack(algorithms.ByName(algorithms.PointLog), rules)
		var state algorithms.State
		var kept []charged
		longest := int64(0)
		for _, r := range rules {
			longest = max(longest, r.Window)
		}
		used := func(r algorithms.Rule, now int64) (n int64) {
			for _, c := range kept {
				if c.at+r.Window > now {
					n += c.points
				}
			}
			return n
		}
		for i, q := range requests {
			kept = slices.DeleteFunc(kept, func(c charged) bool { return c.at+longest <= q.now })
			isKnown := slices.ContainsFunc(kept, func(c charged) bool { return q.value != 0 && c.item == q.item && c.value == q.value })
			room := int64(algorithms.MaxAmount)
			for _, r := range rules {
				room = min(room, max(0, r.Limit-used(r, q.now)))
			}
			query := algorithms.Query{Now: q.now, Cost: q.points, Tag: q.tag()}
			got := stack.Ask(&state, &query)
			if want := q.forgives || isKnown || q.points <= room; got.Allowed != want {
				t.Fatalf("request %d, %+v: allowed is %v, want %v with room for %d", i, q, got.Allowed, want, room)
			}
			if left := stack.Room(&state, q.now); left != room {
				t.Fatalf("request %d: room for %d, want %d", i, left, room)
			}
			switch {
			case q.forgives:
				left := q.points
				for j := len(kept) - 1; j >= 0; j-- {
					if kept[j].item == q.item {
						taken := min(left, kept[j].points)
						left, kept[j].points = left-taken, kept[j].points-taken
					}
				}
				kept = slices.DeleteFunc(kept, func(c charged) bool { return c.points == 0 })
				stack.Add(&state, &query, q.now)
			case !isKnown && min(q.points, room) > 0:
				kept = append(kept, charged{q.now, min(q.points, room), q.item, q.value})
				query.Cost = min(q.points, room)
				stack.Add(&state, &query, q.now)
			case got.Allowed:
				stack.Add(&state, &query, q.now)
			}
			var want []algorithms.Charge
			for _, c := range slices.Backward(kept) {
				want = append(want, algorithms.Charge{At: c.at, Item: c.item, Points: c.points})
			}
			if got := algorithms.Charges(state.Numbers, longest, q.now); !slices.Equal(got, want) {
				t.Fatalf("after request %d, %+v: the charges are %v, want %v", i, q, got, want)
			}
		}
	})
}

// The Lua version keeps the same numbers.
func TestLuaCountsPointsAsGoDoes(t *testing.T) {
	client := connect(t)
	script := redis.NewScript(algorithms.Lua() + `
local rules, state, at = {}, {}, 1
for i = 1, tonumber(ARGV[1]) do
  rules[i] = { limit = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), burst = 0 }
  at = at + 2
end
local stack = engine.stack('point_log', rules)
local out = {}
while at < #ARGV do
  local now, cost, tag = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3], 16)
  local _, retry = engine.ask(stack, state, now, cost, 0, tag)
  out[#out + 1] = string.format('%.0f', retry)
  if retry ~= 0 then cost = math.min(cost, engine.room(stack, state, now)) end
  if cost > 0 then engine.add(stack, state, now, now, cost, '', tag) end
  state = engine.read(engine.write(state))
  at = at + 3
end
local numbers = engine.numbers(state)
for i = 1, #numbers do out[#out + 1] = string.format('%.0f', numbers[i]) end
return table.concat(out, ' ')`)
	rapid.Check(t, func(t *rapid.T) {
		rules, requests := drawPointed(t)
		args := []any{len(rules)}
		for _, r := range rules {
			args = append(args, r.Limit, r.Window)
		}
		stack := algorithms.NewStack(algorithms.ByName(algorithms.PointLog), rules)
		var s sequence
		for _, q := range requests {
			args = append(args, q.now, q.points, hex(uint64(q.tag())))
			query := algorithms.Query{Now: q.now, Cost: q.points, Tag: q.tag()}
			got := stack.Ask(&s.state, &query)
			s.say(got.RetryAt)
			if !got.Allowed {
				query.Cost = min(q.points, stack.Room(&s.state, q.now))
			}
			if query.Cost > 0 {
				stack.Add(&s.state, &query, q.now)
			}
		}
		s.say(s.state.Numbers...)
		got, err := script.Run(context.Background(), client, nil, args...).Text()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, strings.Fields(got), s.said)
	})
}

func hex(n uint64) string { return strconv.FormatUint(n, 16) }
