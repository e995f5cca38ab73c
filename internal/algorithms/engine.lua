-- The counters, as engine.go and the files beside it have them: the same numbers,
-- bit for bit. All of them are whole and less than 2^53.
--
-- A state is one array of numbers, empty for a key that never came: those of each
-- rule, one after the other; a rule's begin behind its offset, rule.at. While
-- reservations that were reserved lie ahead there follow, at
--   size + 1   when the newest reservation is; the numbers are those at that instant
--   size + 2   the id of the request that reserved it, '' where it can no longer
--              be cancelled
--   size + 3   when the newest reservation before it was, 0 for none
--   size + 4.. the numbers as they were before it
--
-- A rule is a table; its creator sets limit, window in milliseconds, burst (0
-- for the rule's limit), first (its window starts with the first request) and
-- queue (a leaky bucket as a queue). engine.stack adds the rest.
--
-- The half of each algorithm is a chunk that returns a table of functions, as the
-- Counter of algorithms.go says them: size(rule), advance(rule, s, at, now),
-- wait(rule, s, at, now, cost), add(rule, s, at, now, cost), remaining(rule, s, at, now),
-- ttl(rule, s, at, now) and, where needed, max_delay(rule) and prepare(rule).
--
-- Nothing is called while this is loaded, when Redis knows no libraries, but what
-- is written here.

local NEVER = -1                   -- the wait and the reservation of what is never allowed
local MAX_AHEAD = 3600000      -- maxAhead
local FURTHEST = 9007199254740992  -- further than any reservation

local function larger(a, b) if a > b then return a end return b end
local function smaller(a, b) if a < b then return a end return b end

-- quotient and rounded_up divide, the one rounded down and the other up.
local function quotient(n, by) return (n - n % by) / by end
local function rounded_up(n, by) return quotient(n + by - 1, by) end

-- lower makes s[i] at most most, and returns whether it was more.
local function lower(s, i, most)
  if s[i] <= most then return false end
  s[i] = most
  return true
end

-- See numbers.go.
local function clock_window(now, window) return now - now % window end
local function clock_window_ahead(now, window) return now - now % window + window end

-- refill and bucket are those of token_bucket.go.
local function refill(rule, s, at, now)
  local elapsed = now - s[at + 1]
  if elapsed >= rounded_up(s[at + 2], rule.limit) then
    s[at + 1], s[at + 2] = 0, 0
  else
    s[at + 1], s[at + 2] = now, s[at + 2] - elapsed * rule.limit
  end
end

local bucket = {}

function bucket.size() return 2 end

function bucket.advance(rule, s, at, now)
  local moved = lower(s, at + 1, now)
  refill(rule, s, at, now)
  return lower(s, at + 2, rule.capacity * rule.window) or moved
end

function bucket.wait(rule, s, at, now, cost)
  return rounded_up(larger(0, s[at + 2] + (cost - rule.capacity) * rule.window), rule.limit)
end

function bucket.add(rule, s, at, now, cost)
  s[at + 1], s[at + 2] = now, s[at + 2] + cost * rule.window
end

function bucket.remaining(rule, s, at) return quotient(rule.capacity * rule.window - s[at + 2], rule.window) end

function bucket.ttl(rule, s, at) return rounded_up(s[at + 2], rule.limit) end

local counters, engine = {}, {}

-- stack returns how rules count under the algorithm of that name.
function engine.stack(name, rules)
  local counter = counters[name]
  local stack = { counter = counter, rules = rules, size = 0, max_delay = MAX_AHEAD }
  for i = 1, #rules do
    local rule = rules[i]
    rule.capacity = rule.burst > 0 and rule.burst or rule.limit
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

-- advance brings a state to now or, where reservations lie ahead, to the newest. It
-- returns which, and whether something was too far ahead and was shifted back.
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

-- ask answers a request and counts nothing: it only brings s to now. It returns
--   reservation     when the request may be done if nobody else comes; NEVER
--   retry    0 where it is allowed; where it is not, when the same request would
--            be, or NEVER
--   rule     which rule makes it wait longest, counted from 1; 0 where it is allowed
--   changed  whether something too far ahead was shifted back, which must be
--            stored even if the request is refused
function engine.ask(stack, s, now, cost, max_wait)
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

-- add counts a request that ask has just allowed, at reservation, which is what ask
-- returned or later, or at now a cost of at most room.
function engine.add(stack, s, now, reservation, cost, id)
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

-- room returns how much cost every rule has left at now, 0 while reservations lie
-- ahead; add may count as much. It brings s to now.
function engine.room(stack, s, now)
  if advance(stack, s, now) > now then return 0 end
  local rules, room = stack.rules, FURTHEST
  for i = 1, #rules do
    local rule = rules[i]
    if rule.limit == 0 then return 0 end
    room = smaller(room, stack.counter.remaining(rule, s, rule.at, now))
  end
  return room
end

-- remaining appends to list, for each rule, what it has left, how many
-- milliseconds from now until it alone allows the same cost, or NEVER, and how
-- many until nothing counts any more, 0 if nothing does; at the newest
-- reservation where reservations lie ahead. It brings s to now.
function engine.remaining(stack, s, now, cost, list)
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

-- ttl returns for how many milliseconds from now s is to be kept if nobody
-- comes, 0 where it is as good as none. It brings s to now.
function engine.ttl(stack, s, now)
  local rules, counter = stack.rules, stack.counter
  local base = advance(stack, s, now)
  local longest = base - now
  for i = 1, #rules do
    local rule = rules[i]
    local its = 0
    if rule.limit > 0 then
      its = counter.ttl(rule, s, rule.at, base)
    else -- a limit that comes back finds it
      for j = rule.at + 1, rule.at + rule.size do
        if s[j] > 0 then its = rule.window end
      end
    end
    if its > 0 then longest = larger(longest, base - now + its) end
  end
  return longest
end

-- cancel undoes the newest reservation of s, a state whose numbers are size
-- many, if it is that of id at the reservation at, no other was made after it, and its
-- time has not come. It returns whether it did.
function engine.cancel(size, s, now, at, id)
  if id == '' or s[size + 2] ~= id or s[size + 1] ~= at or at <= now then return false end
  local before = s[size + 3]
  for i = 1, size do s[i] = s[size + 3 + i] end
  for i = #s, size + 1, -1 do s[i] = nil end
  if before > now then s[size + 1], s[size + 2], s[size + 3] = before, '', 0 end
  return true
end
