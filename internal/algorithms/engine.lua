-- The counters, a translation of engine.go and the files beside it that computes the same
-- numbers, bit for bit. All numbers are integers below 2^53.
--
-- A state is one array of numbers, empty for an unknown key: those of each rule, one rule
-- after the other. amount_log.lua describes that of the log of amounts. The numbers of a rule begin after its offset, rule.at. While there are
-- reservations in the future, these follow:
--   size + 1   the time of the newest reservation; the numbers are those at that time
--   size + 2   the id of its request, '' if it can no longer be cancelled
--   size + 3   the time of the newest reservation before it, 0 for none
--   size + 4.. the numbers as they were before it
--
-- A rule is a table. Its creator sets limit, window in milliseconds (0 for a limit on open holds), starts for a
-- rule of the calendar under the log of amounts, burst (0 means limit; above MAX_BURST at most the limit),
-- first (whether the window begins with the first request) and queue (whether a leaky bucket
-- is a queue) and amounts (whether its policy has a unit). engine.stack adds the other fields.
--
-- The file of each algorithm is a chunk that returns a table of functions, those of Counter in
-- algorithms.go: size(rule), advance(rule, s, at, now), wait(rule, s, at, now, cost),
-- add(rule, s, at, now, cost), remaining(rule, s, at, now), ttl(rule, s, at, now) and, if
-- needed, max_delay(rule) and prepare(rule). An algorithm whose rules share one state, of any
-- size and without reservations, has the functions of the engine instead: ask, add, room,
-- remaining and ttl, and prepare(stack); the log of amounts also has settle and cancel.
--
-- While Redis loads the text, it has no libraries such as math. So only functions of this text
-- are called then.

local NEVER = -1                   -- the wait and the reservation of a request that is never allowed
local MAX_AHEAD = 3600000          -- maxAhead of engine.go
local MAX_BURST = 100000           -- MaxBurst of options.go
local FURTHEST = 9007199254740992  -- later than any reservation

local function larger(a, b) if a > b then return a end return b end
local function smaller(a, b) if a < b then return a end return b end

-- quotient divides and rounds down, rounded_up divides and rounds up.
local function quotient(n, by) return (n - n % by) / by end
local function rounded_up(n, by) return quotient(n + by - 1, by) end

-- scaled returns a*b/by rounded down and what is left of a*b then, as numbers.go does, with by at most 10^15. Products
-- of more than 2^53 are divided digit by digit of b, so that nothing grows above that. A quotient of more is imprecise.
local function scaled(a, b, by)
  local product = a * b
  if product < FURTHEST then
    local q = quotient(product, by)
    return q, product - q * by
  end
  local whole = quotient(a, by)
  local part, base, unit, q, left = a - whole * by, by <= 68719476736 and 65536 or 4, 1, 0, 0
  whole = whole * b
  while unit * base <= b do unit = unit * base end
  while unit >= 1 do
    local digit = quotient(b, unit)
    b = b - digit * unit
    left = left * base + digit * part
    local of_digit = quotient(left, by)
    q, left, unit = q * base + of_digit, left - of_digit * by, unit / base
  end
  return whole + q, left
end

-- scaled_up returns a*b/by rounded up.
local function scaled_up(a, b, by)
  local q, left = scaled(a, b, by)
  if left > 0 then return q + 1 end
  return q
end

-- lower sets s[i] to upper if it is larger, and returns whether it was.
local function lower(s, i, upper)
  if s[i] <= upper then return false end
  s[i] = upper
  return true
end

-- These are in numbers.go too.
local function clock_window(now, window) return now - now % window end
local function clock_window_ahead(now, window) return now - now % window + window end

-- What begins here and ends with bucket is in token_bucket.go too.
local function missing(rule, s, at)
  if rule.amounts then return s[at + 2], s[at + 3] end
  local whole = quotient(s[at + 2], rule.window)
  return whole, s[at + 2] - whole * rule.window
end

local function set_missing(rule, s, at, whole, part)
  if rule.amounts then s[at + 2], s[at + 3] = whole, part else s[at + 2] = whole * rule.window + part end
end

local function refill(rule, s, at, now)
  local added_whole, added_part = scaled(now - s[at + 1], rule.limit, rule.window)
  local whole, part = missing(rule, s, at)
  whole, part = whole - added_whole, part - added_part
  if part < 0 then whole, part = whole - 1, part + rule.window end
  if whole < 0 or whole == 0 and part == 0 then
    s[at + 1] = 0
    set_missing(rule, s, at, 0, 0)
  else
    s[at + 1] = now
    set_missing(rule, s, at, whole, part)
  end
end

local function reduce_missing(rule, s, at, most_whole, most_part)
  local whole, part = missing(rule, s, at)
  if whole < most_whole or whole == most_whole and part <= most_part then return false end
  set_missing(rule, s, at, most_whole, most_part)
  return true
end

local function accumulates(rule, whole, part)
  local ms, left = scaled(whole, rule.window, rule.limit)
  return ms + rounded_up(left + part, rule.limit)
end

local bucket = {}

function bucket.size(rule) return rule.amounts and 3 or 2 end

function bucket.advance(rule, s, at, now)
  local moved = lower(s, at + 1, now)
  refill(rule, s, at, now)
  return reduce_missing(rule, s, at, rule.capacity, 0) or moved
end

function bucket.wait(rule, s, at, now, cost)
  local whole, part = missing(rule, s, at)
  local over = whole + cost - rule.capacity
  if over < 0 then return 0 end
  return accumulates(rule, over, part)
end

function bucket.add(rule, s, at, now, cost)
  local whole, part = missing(rule, s, at)
  s[at + 1] = now
  set_missing(rule, s, at, whole + cost, part)
end

function bucket.remaining(rule, s, at)
  local whole, part = missing(rule, s, at)
  if part > 0 then whole = whole + 1 end
  return rule.capacity - whole
end

function bucket.ttl(rule, s, at)
  local whole, part = missing(rule, s, at)
  return accumulates(rule, whole, part)
end

local counters, engine = {}, {}

-- stack returns the stack of rules under the algorithm with that name.
function engine.stack(name, rules)
  local counter = counters[name]
  local stack = { counter = counter, rules = rules, size = 0, max_delay = MAX_AHEAD }
  if counter.ask then
    stack.shared = counter
    counter.prepare(stack)
    return stack
  end
  for i = 1, #rules do
    local rule = rules[i]
    rule.capacity = rule.burst > 0 and smaller(rule.burst, larger(MAX_BURST, rule.limit)) or rule.limit
    rule.largest_cost = smaller(rule.limit, rule.capacity)
    if counter.prepare then counter.prepare(rule) end
    if counter.max_delay then stack.max_delay = smaller(stack.max_delay, counter.max_delay(rule)) end
    rule.at, rule.size = stack.size, counter.size(rule)
    stack.size = stack.size + rule.size
  end
  return stack
end

local function drop_reservations(stack, s)
  for i = #s, stack.size + 1, -1 do s[i] = nil end
end

-- advance brings a state to now, or to the newest reservation if that is in the future. It
-- returns that time, and whether a time was too far in the future and was set back.
local function advance(stack, s, now)
  local rules, base, moved = stack.rules, now, false
  if #s < stack.size then
    for i = 1, stack.size do s[i] = 0 end
  end
  local newest = s[stack.size + 1]
  if newest then
    if newest <= now then
      drop_reservations(stack, s)
    elseif newest - now > MAX_AHEAD then
      drop_reservations(stack, s)
      moved = true
    else
      base = newest
    end
  end
  for i = 1, #rules do
    local rule = rules[i]
    if rule.limit > 0 and stack.counter.advance(rule, s, rule.at, base) then moved = true end
  end
  return base, moved
end

-- ask decides a request and counts nothing: it only brings s to now. It returns
--   reservation  the time at which the request may be done if there are no others, or NEVER
--   retry        0 if it is allowed; otherwise the time at which the same request would be, or
--                NEVER
--   rule         the number of the rule with the longest wait, counted from 1; 0 if it is
--                allowed
--   changed      whether a time was too far in the future and was set back, or holds that have
--                expired were ended, which must be stored even if the request is refused
function engine.ask(stack, s, now, cost, max_wait, tag, hold)
  if stack.shared then return stack.shared.ask(stack, s, now, cost, max_wait, tag, hold) end
  local rules, wait = stack.rules, stack.counter.wait
  local base, moved = advance(stack, s, now)
  local reservation, by = base, 0
  for i = 1, #rules do
    local rule = rules[i]
    if cost > rule.largest_cost then return NEVER, NEVER, i, moved end
    local its = base + wait(rule, s, rule.at, base, cost)
    if its > reservation then reservation, by = its, i end
  end
  local longest_wait = smaller(max_wait, stack.max_delay)
  if reservation - now <= longest_wait then return reservation, 0, 0, moved end
  return reservation, reservation - longest_wait, by > 0 and by or #rules, moved
end

-- tag is what a request is charged for under the log of points, 0 for nothing in particular, and
-- the tag of the hold of one that holds its cost for hold milliseconds under the log of amounts; source
-- is who asks for that, a text.
--
-- add counts a request that ask has just allowed, at the reservation that ask returned or
-- later; or, at now, any cost up to room.
function engine.add(stack, s, now, reservation, cost, id, tag, hold, source)
  if stack.shared then return stack.shared.add(stack, s, now, reservation, cost, id, tag, hold, source) end
  local size, rules, counter = stack.size, stack.rules, stack.counter
  if reservation > now then
    s[size + 3] = s[size + 1] or 0
    s[size + 1], s[size + 2] = reservation, id
    for i = 1, size do s[size + 3 + i] = s[i] end
  end
  for i = 1, #rules do
    local rule = rules[i]
    counter.advance(rule, s, rule.at, reservation)
    counter.add(rule, s, rule.at, reservation, cost)
  end
end

-- room returns the largest cost that every rule allows at now, 0 while there are reservations
-- in the future. add may count that cost. It brings s to now.
function engine.room(stack, s, now)
  if stack.shared then return stack.shared.room(stack, s, now) end
  if advance(stack, s, now) > now then return 0 end
  local rules, room = stack.rules, FURTHEST
  for i = 1, #rules do
    local rule = rules[i]
    if rule.limit == 0 then return 0 end
    room = smaller(room, stack.counter.remaining(rule, s, rule.at, now))
  end
  return room
end

-- remaining appends three numbers to list for each rule: what remains of its limit; the
-- milliseconds from now until it alone allows the same cost, or NEVER; and those until it is
-- fully restored, 0 if it is. While there are reservations in the future, they are the numbers
-- at the newest one. It brings s to now.
function engine.remaining(stack, s, now, cost, list)
  if stack.shared then return stack.shared.remaining(stack, s, now, cost, list) end
  local rules, counter = stack.rules, stack.counter
  local base = advance(stack, s, now)
  for i = 1, #rules do
    local rule = rules[i]
    local left, its, reset = 0, NEVER, 0
    if rule.limit > 0 then
      left, reset = counter.remaining(rule, s, rule.at, base), counter.ttl(rule, s, rule.at, base)
      if reset > 0 then reset = base - now + reset end
    end
    if cost <= rule.largest_cost then its = base - now + counter.wait(rule, s, rule.at, base, cost) end
    list[#list + 1], list[#list + 2], list[#list + 3] = left, its, reset
  end
end

-- ttl returns for how many milliseconds from now s must be kept if there are no more requests,
-- 0 if it has no information. It brings s to now.
function engine.ttl(stack, s, now)
  if stack.shared then return stack.shared.ttl(stack, s, now) end
  local rules, counter = stack.rules, stack.counter
  local base = advance(stack, s, now)
  local longest = base - now
  for i = 1, #rules do
    local rule = rules[i]
    local its = 0
    if rule.limit > 0 then
      its = counter.ttl(rule, s, rule.at, base)
    else -- the rule may get its former limit again
      for j = rule.at + 1, rule.at + rule.size do
        if s[j] > 0 then its = rule.window end
      end
    end
    if its > 0 then longest = larger(longest, base - now + its) end
  end
  return longest
end

-- read returns the state that was written as a text, nil for a text that is none. The log of amounts and that of
-- points keep their runs as a text, the holds before them if there are any.
function engine.read(text)
  local first = string.byte(text)
  if first == 87 then return counters.amount_log.read({}, text) end
  if first ~= 86 then
    local state = cmsgpack.unpack(text)
    return type(state) == 'table' and state or nil
  end
  local runs, state = cmsgpack.unpack_one(text, 1)
  if type(state) ~= 'table' then return nil end
  return counters.amount_log.read(state, string.sub(text, runs + 1))
end

-- write returns the text of a state.
function engine.write(s)
  if not s.n then return cmsgpack.pack(s) end
  local runs = counters.amount_log.write(s)
  if not s[1] then return runs end
  local holds = {}
  for i = 1, #s do holds[i] = s[i] end
  return 'V' .. cmsgpack.pack(holds) .. runs
end

-- look returns the state that a key has, of whose text only the first HEAD_SIZE bytes are given, nil if all must be read.
-- engine.fetch(name, from, to) reads more of it when needed: the bytes from one position behind the head to another.
engine.HEAD_SIZE = 40
function engine.look(head, name)
  if string.byte(head) == 87 and #head == engine.HEAD_SIZE then return counters.amount_log.look(head, name) end
end

-- changes returns what must be written of a state; see amount_log.lua.
function engine.changes(s)
  if s.n then return counters.amount_log.changes(s) end
end

-- numbers returns the numbers of a state as Go keeps them.
function engine.numbers(s)
  if s.n then return counters.amount_log.numbers(s) end
  local numbers = {}
  for i = 1, #s do
    if type(s[i]) == 'number' then numbers[#numbers + 1] = s[i] end
  end
  return numbers
end

-- holds returns the open holds of a state, the oldest first; see amount_log.lua.
function engine.holds(s, now) return counters.amount_log.holds(s, now) end

-- is_empty returns whether a state has no information.
function engine.is_empty(s) return #s == 0 and (s.n or 0) == 0 end

-- settle ends or renews a hold under the log of amounts; see amount_log.lua.
function engine.settle(stack, s, now, tag, cost, extend)
  if not stack.shared or not stack.shared.settle then return 0, 0, 0, 0, 0, 0 end
  return stack.shared.settle(stack, s, now, tag, cost, extend)
end

-- cancel_charge removes an amount that was charged at a time up to now from a state of the log of amounts.
-- It returns whether there was any.
function engine.cancel_charge(s, now, at, amount) return counters.amount_log.cancel(s, now, at, amount) end

-- cancel cancels the newest reservation of s, a state with size numbers, if it is the one of id
-- at a time that is in the future, and no other was made after it. It returns whether it did.
function engine.cancel(size, s, now, at, id)
  if id == '' or s[size + 2] ~= id or s[size + 1] ~= at or at <= now then return false end
  local before = s[size + 3]
  for i = 1, size do s[i] = s[size + 3 + i] end
  for i = #s, size + 1, -1 do s[i] = nil end
  if before > now then s[size + 1], s[size + 2], s[size + 3] = before, '', 0 end
  return true
end
