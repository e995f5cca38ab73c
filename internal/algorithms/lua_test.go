package algorithms_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/test/servers"
)

// driver applies a sequence of queries to one state, as redislog does over time, and returns all
// results of the engine.
//
// ARGV 1  the algorithm
// ARGV 2  how many rules
// ARGV 3+ the rules: limit, window, burst, first, queue, amounts; then the queries: the
//
//	limit of each rule, now, cost, longest wait, id, 1 for a peek, and 1 to
//	cancel the previous reservation first
const driver = `
local at = 2
local function arg() at = at + 1 return ARGV[at] end
local function number() return tonumber(arg()) end
local rules = {}
for i = 1, tonumber(ARGV[2]) do
  rules[i] = { limit = number(), window = number(), burst = number(), first = number() == 1, queue = number() == 1, amounts = number() == 1 }
end
local text, out, reservation, id = engine.write({}), {}, 0, ''
function engine.fetch(_, from, to) return string.sub(text, engine.HEAD_SIZE + from, engine.HEAD_SIZE + to) end
local function read() return engine.look(string.sub(text, 1, engine.HEAD_SIZE), 'key') or engine.read(text) end
local function write(s)
  local head, added, at = engine.changes(s)
  if head then
    text = head .. string.sub(text, #head + 1, at) .. added .. string.sub(text, at + #added + 1)
  else
    text = engine.write(s)
  end
end
local function say(list) for i = 1, #list do out[#out + 1] = string.format('%.0f', list[i]) end end
while at < #ARGV do
  for i = 1, #rules do rules[i].limit = number() end
  local stack = engine.stack(ARGV[1], rules)
  local now, cost, max_wait = number(), number(), number()
  local new_id, peek, undo = arg(), number() == 1, number() == 1
  local s = read()
  if undo then
    say{ engine.cancel(stack.size, s, now, reservation, id) and 1 or 0 }
    write(s)
    s = read()
  end
  local retry, rule, changed
  id = new_id
  reservation, retry, rule, changed = engine.ask(stack, s, now, cost, max_wait)
  if retry == 0 and not peek then engine.add(stack, s, now, reservation, cost, id) changed = true end
  local list = { reservation, retry, rule, changed and not peek and 1 or 0 }
  engine.remaining(stack, s, now, cost, list)
  list[#list + 1] = engine.ttl(stack, s, now)
  say(list)
  if peek then say(engine.numbers(s)) else write(s) say(engine.numbers(engine.read(text))) end
end
return table.concat(out, ' ')`

// The Go and the Lua version of each counter give the same answers and store the same numbers,
// for all rules, costs, waits and clocks.
func TestLuaAgreesWithGo(t *testing.T) {
	client := connect(t)
	script := redis.NewScript(algorithms.Lua() + driver)
	forEach(t, func(t *testing.T, v variant) {
		rapid.Check(t, func(rt *rapid.T) {
			rules := drawRules(rt, v, 3)
			s := &sequence{rules: rules, args: []any{v.Name, len(rules)}, now: morning}
			for _, r := range rules {
				s.args = append(s.args, r.Limit, r.Window, r.Burst, asNumber(r.WindowStart == algorithms.WindowFirst), asNumber(r.Variant == algorithms.VariantQueue), asNumber(r.Amounts))
			}
			for range rapid.IntRange(1, 25).Draw(rt, "questions") {
				s.ask(rt, v)
			}
			got, err := script.Run(context.Background(), client, nil, s.args...).Text()
			if err != nil {
				rt.Fatal(err)
			}
			compare(rt, strings.Fields(got), s.said)
		})
	})
}

// The text can be part of a function library, which must not define globals. On Redis 7.0 such a
// library finds no libraries while it is loaded.
func TestLuaLoadsInAFunctionLibrary(t *testing.T) {
	client := connect(t)
	const register = "redis.register_function('longest', function() return engine.stack('leaky_bucket', {{ limit = 2, window = 10, burst = 5, queue = true }}).max_delay end)"
	if err := client.FunctionLoad(t.Context(), "#!lua name=counting\n"+algorithms.Lua()+register).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.FunctionDelete(context.Background(), "counting") })
	if longest, err := client.FCall(t.Context(), "longest", nil).Int(); err != nil || longest != 25 {
		t.Fatalf("got %d, %v", longest, err)
	}
}

// connect returns a client of a Redis that is stopped at the end of the test.
func connect(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(servers.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func compare(t *rapid.T, lua, inGo []string) {
	for i := range min(len(lua), len(inGo)) {
		if lua[i] != inGo[i] {
			t.Fatalf("number %d is %s in Lua and %s in Go, after %v", i, lua[i], inGo[i], inGo[max(0, i-30):i])
		}
	}
	if len(lua) != len(inGo) {
		t.Fatalf("Lua returns %d numbers and Go %d", len(lua), len(inGo))
	}
}

// sequence is one sequence of queries, as arguments for the driver, and the results of the Go
// version.
type sequence struct {
	rules       []algorithms.Rule
	args        []any
	said        []string
	state       algorithms.State
	now         int64
	wait        int64 // the wait in the last answer
	reservation int64
	id          string
}

func (s *sequence) ask(t *rapid.T, v variant) {
	if rapid.IntRange(0, 7).Draw(t, "change") == 0 {
		changed := rapid.IntRange(0, len(s.rules)-1).Draw(t, "which")
		s.rules = slices.Clone(s.rules)
		s.rules[changed].Limit = rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(1, v.largest(100_000))).Draw(t, "new limit")
	}
	stack := algorithms.NewStack(v.Algorithm, s.rules)
	s.now = max(morning-40*86_400_000, min(s.now+drawStep(t, s.rules, s.wait), morning+200*86_400_000))
	q := algorithms.Query{
		Now: s.now, Cost: v.drawCost(t, s.rules), ID: fmt.Sprint("id", len(s.args)), Peek: rapid.IntRange(0, 9).Draw(t, "peek") == 0,
		MaxWait: rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 3_600_000)).Draw(t, "most"),
	}
	undo := s.reservation > 0 && rapid.IntRange(0, 5).Draw(t, "undo") == 0
	for _, r := range s.rules {
		s.args = append(s.args, r.Limit)
	}
	s.args = append(s.args, q.Now, q.Cost, q.MaxWait, q.ID, asNumber(q.Peek), asNumber(undo))
	if undo {
		s.say(asNumber(s.state.Cancel(q.Now, s.reservation, s.id)))
	}
	s.answer(stack, q)
}

func (s *sequence) answer(stack *algorithms.Stack, q algorithms.Query) {
	kept := &s.state
	if q.Peek { // so that the engine's result for the copy can be compared, too
		looked := s.state.Clone()
		kept = &looked
	}
	var v algorithms.Result
	if v = stack.Ask(kept, &q); v.Allowed && !q.Peek {
		stack.Add(kept, &q, v.AllowedAt)
		v.Changed = true
	}
	detail := stack.Remaining(nil, kept, q.Now, q.Cost)
	s.say(v.AllowedAt, v.RetryAt, int64(v.Rule+1), asNumber(v.Changed && !q.Peek))
	for _, has := range detail {
		s.say(has.Amount, has.Wait, has.Reset)
	}
	s.say(stack.TTL(kept, q.Now))
	s.say(kept.Numbers...)
	if reservations := kept.Reservations; reservations != nil {
		s.say(reservations.Newest, reservations.NewestBefore)
		s.say(reservations.Before...)
	}
	s.reservation, s.id, s.wait = v.AllowedAt, q.ID, 0
	if v.RetryAt != algorithms.Never {
		s.wait = max(0, v.RetryAt-q.Now)
	}
}

// say records numbers in the format of the driver.
func (s *sequence) say(numbers ...int64) {
	for _, n := range numbers {
		if n == algorithms.Never {
			n = -1
		}
		if n >= 1<<53 || n < -1 {
			panic(fmt.Sprintf("%d is no number that Lua holds exactly", n))
		}
		s.said = append(s.said, strconv.FormatInt(n, 10))
	}
}

func asNumber(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
