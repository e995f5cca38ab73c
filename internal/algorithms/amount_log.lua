-- The log of amounts. A state is an array of runs, the oldest first, each of three numbers: the
-- time of its earliest request, the time at which it counts, and its amount. amount_log.go
-- explains when runs are merged. While there are holds, their number, negated, and four numbers
-- for each come before the runs; see holds.go.
local GRAINS, MAX_TOTAL = 256, 4503599627370496
local FORGIVES, VALUES = 2251799813685248, 2147483648  -- 2^51, 2^31
local MAX_HOLDS, MIN_LATE, LONGEST_LATE = 1024, 60000, 3600000

local amounts = {}

function amounts.prepare(stack)
  local rules = stack.rules
  stack.most, stack.longest = 3 * (512 + 2 * (GRAINS + 1) * #rules), 0
  for i = 1, #rules do
    stack.longest = larger(stack.longest, rules[i].window)
    if rules[i].starts then stack.calendars = stack.calendars or {} stack.calendars[#stack.calendars + 1] = rules[i] end
  end
end

-- set_periods sets from and to of the rules of the calendar: when the period of now begins and ends.
-- Their starts, in order, are the beginnings of the periods around the node's time.
local function set_periods(stack, now)
  local calendars = stack.calendars
  if not calendars then return end
  for i = 1, #calendars do
    local rule = calendars[i]
    local starts = rule.starts
    local j = #starts
    while j > 1 and starts[j] > now do j = j - 1 end
    if starts[j] > now then
      rule.from, rule.to = starts[j] - rule.window, starts[j]
    else
      rule.from, rule.to = starts[j], starts[j + 1] or starts[j] + rule.window
    end
  end
end

-- since returns the last time that does not count under a rule any more.
local function since(rule, now) return rule.from and rule.from - 1 or now - rule.window end

-- leaves returns when what was charged at a time stops counting under a rule.
local function leaves(rule, at)
  if not rule.from then return at + rule.window end
  return at >= rule.from and rule.to or at
end

-- back returns a time that is shifted back, as far as it stays in the present period of each calendar.
local function back(stack, at, by)
  local to, calendars = at - by, stack.calendars
  if not calendars then return to end
  for i = 1, #calendars do
    local from = calendars[i].from
    if from <= at then to = larger(to, from) end
  end
  return to
end

-- divides returns whether a period of the calendar begins after a time and up to another.
local function divides(stack, after, to)
  local calendars = stack.calendars
  if not calendars then return false end
  for i = 1, #calendars do
    local from = calendars[i].from
    if after < from and from <= to then return true end
  end
  return false
end

-- holds_end returns how many numbers of s precede the runs.
local function holds_end(s)
  local first = s[1]
  if not first or first >= 0 then return 0 end
  return smaller(1 - 4 * first, #s - (#s - 1) % 4)
end

-- drop removes n numbers of s after the first from.
local function drop(s, from, n)
  if n == 0 then return end
  local size = #s
  for i = from + 1, size - n do s[i] = s[i + n] end
  for i = size, size - n + 1, -1 do s[i] = nil end
end

-- open_up makes room for n numbers of s after the first from.
local function open_up(s, from, n)
  for i = #s, from + 1, -1 do s[i + n] = s[i] end
end

-- drop_hold removes the hold whose numbers begin at i.
local function drop_hold(s, i)
  s[1] = s[1] + 1
  drop(s, i - 1, 4)
  if s[1] == 0 then drop(s, 0, 1) end
end

local function late(s, i) return smaller(larger(s[i + 3] - s[i + 1], MIN_LATE), LONGEST_LATE) end

local insert -- adds an amount at a time up to now, unless no window contains it any more

-- end_holds ends the holds that have expired, and forgets those that expired long ago.
local function end_holds(stack, s, now)
  local i = 2
  while i <= holds_end(s) do
    if s[i + 3] <= now and s[i + 2] > 0 then
      local amount = s[i + 2]
      s[i + 2] = -amount
      if s[i] < FORGIVES then insert(stack, s, s[i + 1], amount, now) end
    end
    if s[i + 3] > now or s[i + 3] + late(s, i) > now then i = i + 4 else drop_hold(s, i) end
  end
end

local function advance(stack, s, now)
  set_periods(stack, now)
  local first = holds_end(s)
  local size, shifted, newest = #s, false, now
  for i = size, size - (size - first) % 3 + 1, -1 do s[i] = nil end
  size = #s
  if size > first then newest = larger(newest, s[size - 1]) end
  for i = 2, first, 4 do newest = larger(newest, s[i + 1]) end
  if newest > now then
    local by = newest - now
    for i = first + 1, size, 3 do
      s[i + 1] = back(stack, s[i + 1], by)
      if not stack.tagged then s[i] = back(stack, s[i], by) end
    end
    for i = 2, first, 4 do s[i + 1], s[i + 3] = back(stack, s[i + 1], by), s[i + 3] - by end
    shifted = true
  end
  local gone, longest = first, stack.longest
  while gone < size and s[gone + 2] + longest <= now do gone = gone + 3 end
  drop(s, first, gone - first)
  if first > 0 then end_holds(stack, s, now) end
  return shifted
end

-- used returns the total of the runs that are later than after, and how many numbers precede the
-- oldest of them. first is how many precede the runs.
local function used(s, after, first)
  local total, oldest = 0, #s
  while oldest > first and s[oldest - 1] > after do
    total, oldest = total + s[oldest], oldest - 3
  end
  return total, oldest
end

-- open_holds returns how many holds are open and what they total.
local function open_holds(s, first)
  local open, held = 0, 0
  for i = 2, first, 4 do
    if s[i + 2] > 0 then open, held = open + 1, held + s[i + 2] end
  end
  return open, held
end

-- find_hold returns where the numbers of the hold with a tag begin, nil if there is none.
local function find_hold(s, tag)
  for i = 2, holds_end(s), 4 do
    if s[i] == tag then return i end
  end
end

-- hold_leaves returns when an open hold stops counting under a rule if it is never settled.
local function hold_leaves(rule, s, i)
  if s[i] >= FORGIVES then return s[i + 3] end
  return larger(s[i + 3], leaves(rule, s[i + 1]))
end

local function last_end(rule, s, first)
  local last = 0
  for i = 2, first, 4 do
    if s[i + 2] > 0 then last = larger(last, hold_leaves(rule, s, i)) end
  end
  return last
end

-- slot_wait returns how long fewer than most holds are not open.
local function slot_wait(s, first, most, now)
  local ends = {}
  for i = 2, first, 4 do
    if s[i + 2] > 0 then ends[#ends + 1] = s[i + 3] end
  end
  if #ends < most then return 0 end
  table.sort(ends)
  return ends[#ends - most + 1] - now
end

-- held_wait is the wait for a key with holds.
local function held_wait(rule, s, first, now, cost)
  local total, oldest = used(s, since(rule, now), first)
  local _, held = open_holds(s, first)
  total = total + held
  if total + cost <= rule.limit then return 0 end
  local all, free, k = {}, now, 1
  for i = oldest + 1, #s, 3 do all[#all + 1] = { leaves(rule, s[i + 1]), s[i + 2] } end
  for i = 2, first, 4 do
    if s[i + 2] > 0 then all[#all + 1] = { hold_leaves(rule, s, i), s[i + 2] } end
  end
  table.sort(all, function(a, b) return a[1] < b[1] end)
  while total + cost > rule.limit do
    total, free, k = total - all[k][2], all[k][1], k + 1
  end
  return free - now
end

-- wait returns how long a rule refuses a cost, NEVER if it always does. hold is 0 unless the cost
-- is to be held.
local function wait(rule, s, first, now, cost, hold)
  if rule.window == 0 then
    if hold == 0 then return 0 end
    if rule.limit == 0 then return NEVER end
    return slot_wait(s, first, rule.limit, now)
  end
  if cost > rule.limit then return NEVER end
  if first > 0 then return held_wait(rule, s, first, now, cost) end
  local total, i = used(s, since(rule, now), 0)
  local free = now
  while total + cost > rule.limit do
    total, free, i = total - s[i + 3], leaves(rule, s[i + 2]), i + 3
  end
  return free - now
end

-- has returns whether a run has the tag. See point_log.go about tags.
local function has(s, tag)
  if tag % VALUES == 0 then return false end
  for i = 1, #s, 3 do
    if s[i] == tag then return true end
  end
  return false
end

function amounts.ask(stack, s, now, cost, _, tag, hold)
  local rules, at, by, full = stack.rules, now, 0, false
  local shifted = advance(stack, s, now)
  if stack.tagged and (tag >= FORGIVES or has(s, tag)) then return now, 0, 0, shifted end
  local first = holds_end(s)
  hold = hold or 0
  if hold > 0 and find_hold(s, tag) then return now, 0, 0, shifted end
  for i = 1, #rules do
    local its = wait(rules[i], s, first, now, cost, hold)
    if its == NEVER then return NEVER, NEVER, i, shifted end
    if now + its > at then at, by = now + its, i end
  end
  if hold > 0 and #rules > 0 then
    local its = now + slot_wait(s, first, MAX_HOLDS, now)
    if its > at then at, by, full = its, #rules, true end
  end
  return at, by > 0 and at or 0, by, shifted, full
end

-- grain returns how long a run that counts at a time may be.
local function grain(stack, at, now)
  local shortest, rules = stack.longest, stack.rules
  for i = 1, #rules do
    if at + rules[i].window > now then shortest = smaller(shortest, rules[i].window) end
  end
  return quotient(shortest, GRAINS)
end

-- merge merges the runs, which the first numbers precede.
local function merge(stack, s, now, first)
  local to = #s - 3
  local length = grain(stack, s[to + 2], now)
  for i = to - 3, first, -3 do
    if s[to + 2] - s[i + 1] <= length and not divides(stack, s[i + 2], s[to + 2]) then
      s[to + 1], s[to + 3] = smaller(s[to + 1], s[i + 1]), s[to + 3] + s[i + 3]
    else
      to = to - 3
      s[to + 1], s[to + 2], s[to + 3] = s[i + 1], s[i + 2], s[i + 3]
      length = grain(stack, s[to + 2], now)
    end
  end
  drop(s, first, to - first)
end

insert = function(stack, s, at, amount, now)
  if amount <= 0 or at + stack.longest <= now then return end
  local first, i = holds_end(s), #s
  while i > first and s[i - 1] > at do i = i - 3 end
  if i > first and s[i - 1] == at then
    s[i] = s[i] + amount
    return
  end
  open_up(s, i, 3)
  s[i + 1], s[i + 2], s[i + 3] = at, at, amount
  if #s - first > stack.most then merge(stack, s, now, first) end
end

-- add_hold takes a hold. If there are as many as a key may have, the expired one that ended first
-- is forgotten.
local function add_hold(s, now, cost, tag, hold)
  if find_hold(s, tag) then return end
  local first = holds_end(s)
  if first == 0 then
    open_up(s, 0, 1)
    s[1], first = 0, 1
  elseif s[1] <= -MAX_HOLDS then
    local oldest
    for i = 2, first, 4 do
      if s[i + 2] < 0 and (not oldest or s[i + 3] < s[oldest + 3]) then oldest = i end
    end
    if not oldest then return end
    drop_hold(s, oldest)
    first = first - 4
  end
  open_up(s, first, 4)
  s[first + 1], s[first + 2], s[first + 3], s[first + 4] = tag, now, cost, now + hold
  s[1] = s[1] - 1
end

-- forgive takes up to points from the newest runs of the item of tag.
local function forgive(s, tag, points)
  local item, to = quotient(tag - FORGIVES, VALUES), #s
  for i = #s - 2, 1, -3 do
    if quotient(s[i], VALUES) == item then
      local taken = smaller(points, s[i + 2])
      points, s[i + 2] = points - taken, s[i + 2] - taken
    end
  end
  local kept = 0
  for i = 1, to, 3 do
    if s[i + 2] > 0 then
      s[kept + 1], s[kept + 2], s[kept + 3] = s[i], s[i + 1], s[i + 2]
      kept = kept + 3
    end
  end
  for i = to, kept + 1, -1 do s[i] = nil end
end

function amounts.add(stack, s, now, _, cost, _, tag, hold)
  advance(stack, s, now)
  if stack.tagged then
    if tag >= FORGIVES then
      forgive(s, tag, cost)
    elseif not has(s, tag) then
      local size = #s
      s[size + 1], s[size + 2], s[size + 3] = tag, now, cost
    end
    return
  end
  if hold and hold > 0 then return add_hold(s, now, cost, tag, hold) end
  insert(stack, s, now, smaller(cost, larger(0, MAX_TOTAL - used(s, now - stack.longest, holds_end(s)))), now)
end

function amounts.room(stack, s, now)
  local rules, room = stack.rules, FURTHEST
  advance(stack, s, now)
  local first = holds_end(s)
  local _, held = open_holds(s, first)
  for i = 1, #rules do
    if rules[i].window > 0 then
      room = smaller(room, larger(0, rules[i].limit - used(s, since(rules[i], now), first) - held))
    end
  end
  return room
end

function amounts.remaining(stack, s, now, cost, list)
  local rules = stack.rules
  advance(stack, s, now)
  local first = holds_end(s)
  local open, held = open_holds(s, first)
  for i = 1, #rules do
    local rule, reset = rules[i], 0
    local left = larger(0, rule.limit - open)
    if rule.window > 0 then
      local total, oldest = used(s, since(rule, now), first)
      left = larger(0, rule.limit - total - held)
      if oldest < #s and rule.limit > 0 then reset = leaves(rule, s[#s - 1]) - now end
    end
    if rule.window == 0 or rule.limit > 0 then reset = larger(reset, last_end(rule, s, first) - now) end
    list[#list + 1], list[#list + 2], list[#list + 3] = left, wait(rule, s, first, now, cost, 1), reset
  end
end

function amounts.ttl(stack, s, now)
  advance(stack, s, now)
  local first, ttl = holds_end(s), 0
  if #s > first then ttl = s[#s - 1] + stack.longest - now end
  for i = 2, first, 4 do
    ttl = larger(ttl, s[i + 3] + late(s, i) - now)
    if s[i + 2] > 0 then ttl = larger(ttl, s[i + 1] + stack.longest - now) end
  end
  return ttl
end

-- settle ends a hold, or renews it if extend is more than 0. A cost of -1 is what was held. It
-- returns the state of the hold (0 unknown, 1 open, 2 settled, 3 expired), what was held, what was
-- used, how much of that is beyond a limit, when the hold expires, and when it did before this renewed it.
function amounts.settle(stack, s, now, tag, cost, extend)
  advance(stack, s, now)
  local i = find_hold(s, tag)
  if not i then return 0, 0, 0, 0, 0, 0 end
  local taken, amount, expires = s[i + 1], s[i + 2], s[i + 3]
  local is_open, held = amount > 0, larger(amount, -amount)
  if extend > 0 then
    if not is_open then return 3, held, 0, 0, expires, 0 end
    s[i + 3] = larger(expires, now + extend)
    return 1, held, 0, 0, s[i + 3], expires
  end
  if cost < 0 then cost = held end
  local own, more = 0, cost
  if is_open then
    own = smaller(cost, held)
    more = cost - own
  elseif tag < FORGIVES then
    more = larger(0, cost - held)
  end
  drop_hold(s, i)
  local total = used(s, now - stack.longest, holds_end(s))
  insert(stack, s, taken, own, now)
  insert(stack, s, now, smaller(more, larger(0, MAX_TOTAL - total)), now)
  local over = 0
  if more > 0 then
    local first, rules = holds_end(s), stack.rules
    local _, still = open_holds(s, first)
    for j = 1, #rules do
      if rules[j].window > 0 then
        over = larger(over, smaller(more, used(s, since(rules[j], now), first) + still - rules[j].limit))
      end
    end
  end
  return is_open and 2 or 3, held, cost, over, expires, 0
end

-- cancel removes an amount that was charged at a time up to now, and returns whether there was any; see
-- CancelCharge of amount_log.go.
function amounts.cancel(s, now, at, amount)
  local first, size = holds_end(s), #s
  size = size - (size - first) % 3
  if size == first or s[size - 1] > now then return false end
  local kept, freed = first, false
  for i = first + 1, size, 3 do
    if s[i] <= at and at <= s[i + 1] and amount > 0 then
      local taken = smaller(amount, s[i + 2])
      s[i + 2], amount, freed = s[i + 2] - taken, amount - taken, true
    end
    if s[i + 2] > 0 then
      s[kept + 1], s[kept + 2], s[kept + 3] = s[i], s[i + 1], s[i + 2]
      kept = kept + 3
    end
  end
  for i = #s, kept + 1, -1 do s[i] = nil end
  return freed
end

return amounts
