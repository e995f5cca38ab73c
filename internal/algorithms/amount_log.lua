-- The log of amounts. A state is a table with its holds, see holds.go: while there are any, their number,
-- negated, and five values for each. Its runs, the oldest first, each have the time of its earliest request, the
-- time at which it counts, and the sum of all amounts up to it. amount_log.go explains when runs are merged. As a
-- text they have a head before them and room for some more behind them. While a state is in use, its field n is how
-- many runs it has, room for how many there is room, last the time of the newest, window for how long that one counts,
-- drops when Redis drops the state if it has no holds, base the number that is in every sum, and total the last sum. Its field runs has the text behind
-- the head, or is not set as long as only parts of it are needed: engine.fetch reads them from the key with the name
-- of the field name. Then added has what is not written yet: the end of runs.
--
-- Redis's Lua hashes each byte of a string that it creates, and a check needs a few runs. Plain version: read and write
-- all. Benchmark: BenchmarkAmounts.
local GRAINS, MAX_TOTAL = 256, 4503599627370496
local FORGIVES, VALUES = 2251799813685248, 2147483648  -- 2^51, 2^31
local MAX_HOLDS, MIN_LATE, LONGEST_LATE = 1024, 60000, 3600000
local HOLD = 5 -- values of a hold; the source is what the engine is given, a text or a number
local RUN, SIZE, TIME, SUM = '>I7I6I7', 20, -12, -6  -- the offsets of a time and a sum in runs are those of its run times SIZE, plus TIME or SUM
local HEAD, HEAD_SIZE = '>c1I4I4I6I5I6I7I7', 40

local TRIM = 16  -- at a multiple of so many runs old ones may be dropped
local BATCH = 16 -- runs that are read or written by one call
local pack, unpack_at, sub, concat, values_of, batch

local amounts = {}

local function find_libraries()
  if pack then return end
  pack, unpack_at, sub, concat, values_of = struct.pack, struct.unpack, string.sub, table.concat, unpack
  batch = '>' .. string.rep('I7I6I7', BATCH)
end

-- empty removes all runs.
local function empty(s)
  find_libraries()
  s.runs, s.added, s.n, s.room, s.last, s.total, s.base, s.window, s.drops = '', false, 0, 0, 0, 0, 0, s.window or 0, s.drops or 0
end

-- open prepares the runs of a state from their text, or from only its head.
local function open(s, text)
  find_libraries()
  local _
  _, s.n, s.room, s.last, s.window, s.drops, s.total, s.base = unpack_at(HEAD, text)
end

local function head(s) return pack(HEAD, 'W', s.n, s.room, s.last, s.window, s.drops, s.total, s.base) end

-- load reads all runs.
local function load(s)
  if s.runs then return end
  local added = s.added or ''
  s.runs, s.added = SIZE * s.n > #added and engine.fetch(s.name, 1, SIZE * s.n - #added) .. added or added, false
end

-- part returns a string with the bytes of runs from one position to another, and the position of the first in it.
local function part(s, from, to)
  if s.added then load(s) end
  if s.runs then return s.runs, from end
  return engine.fetch(s.name, from, to), 1
end

-- time_of returns when the i-th run counts, and sum_of the sum up to it, base if i is 0.
local function time_of(s, i)
  if i == s.n then return s.last end
  return (unpack_at('>I6', part(s, SIZE * i + TIME, SIZE * i + TIME + 5)))
end

local function sum_of(s, i)
  if i == 0 then return s.base end
  if i == s.n then return s.total end
  return (unpack_at('>I7', part(s, SIZE * i + SUM, SIZE * i + SUM + 6)))
end

-- first_after returns the number of the oldest run that is later than since, n + 1 if none is, and the
-- sum before it. As requests tend to come at a steady rate, it interpolates in every other step.
local function first_after(s, since)
  local low, high, high_at = 1, s.n, s.last
  if high == 0 or high_at <= since then return high + 1, s.total end
  local low_at = time_of(s, 1)
  if low_at > since then return 1, s.base end
  local by_rate = true
  while high - low > 1 do
    local i
    if by_rate then
      local share = (high - low) * (high_at - since) / (high_at - low_at)
      i = high - (share - share % 1)
      if i <= low then i = low + 1 elseif i > high then i = high end
    else
      i = quotient(low + high + 1, 2)
    end
    by_rate = not by_rate
    local from = SIZE * (i - 1) + TIME
    local before, sum, _, at = unpack_at('>I6I7I7I6', part(s, from, from + 25))
    if at <= since then
      low, low_at = i, at
    elseif before <= since then
      return i, sum
    else
      high, high_at = i - 1, before
    end
  end
  return high, sum_of(s, high - 1)
end

-- last_over returns the number of the newest run that must leave before what is left is at most an amount, which
-- is less than all, and when that run counts. As costs tend to be alike, it interpolates in every other step.
local function last_over(s, most)
  local low, high, low_sum, high_sum = 1, s.n, s.base, s.total -- the sums before low and of high
  local limit, by_share, at = s.total - most, true, s.last -- the first run whose sum is at least limit
  while high > low do
    local i
    if by_share then
      local share = (high - low + 1) * (limit - low_sum - 1) / (high_sum - low_sum)
      i = low + (share - share % 1)
      if i > high then i = high end
    else
      i = quotient(low + high, 2)
    end
    by_share = not by_share
    local before, its, sum = low_sum
    if i > low then
      local from = SIZE * (i - 1) + SUM
      local _
      before, _, its, sum = unpack_at('>I7I7I6I7', part(s, from, from + 26))
    else
      its, sum = unpack_at('>I6I7', part(s, SIZE * i + TIME, SIZE * i + TIME + 12))
    end
    if sum < limit then
      low, low_sum = i + 1, sum
    elseif before < limit then
      return i, its
    else
      high, high_sum = i - 1, before
    end
  end
  return high, time_of(s, high)
end

-- list_of returns the runs from the i-th on as a list of three numbers for each: those of the run, with its own
-- amount in place of the sum.
local function list_of(s, i)
  load(s)
  local list, before, j = {}, sum_of(s, i - 1), i
  while j <= s.n do
    local many = s.n - j >= BATCH
    local runs = { unpack_at(many and batch or RUN, s.runs, SIZE * j + TIME - 7) }
    for k = 1, #runs - 1, 3 do
      local size, sum = #list, runs[k + 2]
      list[size + 1], list[size + 2], list[size + 3], before = runs[k], runs[k + 1], sum - before, sum
    end
    j = j + (many and BATCH or 1)
  end
  return list
end

-- set_list replaces the runs after the first n by those of a list, without those that have no amount.
local function set_list(s, n, list)
  load(s)
  local parts, sum, size = {}, 0, 0
  if n > 0 then parts[1], sum = sub(s.runs, 1, SIZE * n), sum_of(s, n) end
  s.base, s.last = n > 0 and s.base or 0, n > 0 and time_of(s, n) or 0
  for i = 1, #list, 3 do
    if list[i + 2] > 0 then
      sum, s.last = sum + list[i + 2], list[i + 1]
      list[size + 1], list[size + 2], list[size + 3] = list[i], list[i + 1], sum
      size = size + 3
    end
  end
  local i = 1
  while i <= size do
    local many = size - i >= 3 * BATCH
    local last = many and i + 3 * BATCH - 1 or i + 2
    parts[#parts + 1] = pack(many and batch or RUN, values_of(list, i, last))
    i = last + 1
  end
  s.runs, s.n, s.total = concat(parts), n + size / 3, sum
end

-- append adds a run that is later than all others, or is one of the log of points.
local function append(s, first, at, amount)
  local total = s.total + amount
  local run = pack(RUN, first, at, total)
  if s.runs then
    s.runs = (#s.runs == SIZE * s.n and s.runs or sub(s.runs, 1, SIZE * s.n)) .. run
  else
    s.added = s.added and s.added .. run or run
  end
  s.n, s.last, s.total = s.n + 1, at, total
end

-- join adds an amount to the newest run.
local function join(s, amount)
  s.total = s.total + amount
  local sum = pack('>I7', s.total)
  if s.runs then
    s.runs = sub(s.runs, 1, SIZE * s.n - #sum) .. sum
  else
    s.added = (s.added and sub(s.added, 1, -#sum - 1) or '') .. sum
  end
end

-- trim drops the runs that have left every window.
local function trim(stack, s, now)
  local first, before = first_after(s, now - stack.longest)
  if first > s.n then return empty(s) end
  if first > 1 then
    load(s)
    s.runs, s.n, s.base = sub(s.runs, SIZE * (first - 1) + 1, SIZE * s.n), s.n - first + 1, before
  end
end

-- must_trim returns whether an eighth of the runs has left every window. Most requests need not look.
local function must_trim(stack, s, now)
  return s.n % TRIM == 0 and time_of(s, quotient(s.n, 8) + 1) + stack.longest <= now
end

function amounts.prepare(stack)
  local rules = stack.rules
  stack.most, stack.longest = 512 + 2 * (GRAINS + 1) * #rules, 0
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

-- holds_end returns how many numbers s has.
local function holds_end(s)
  local first = s[1]
  if not first or first >= 0 then return 0 end
  return smaller(1 - HOLD * first, #s - (#s - 1) % HOLD)
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
  drop(s, i - 1, HOLD)
  if s[1] == 0 then drop(s, 0, 1) end
end

local function late(s, i) return smaller(larger(s[i + 3] - s[i + 1], MIN_LATE), LONGEST_LATE) end

local insert_all -- adds the amounts of a list, a time up to now and an amount for each in the order of time

-- ends returns when something becomes of a hold by itself: when it expires, or when it is forgotten.
local function ends(s, i)
  if s[i + 2] > 0 then return s[i + 3] end
  return s[i + 3] + late(s, i)
end

-- end_holds ends the holds that have expired, and forgets those that expired long ago. Holds are in the order
-- in which they were taken.
local function end_holds(stack, s, now)
  local first, to, ended = holds_end(s), 1, {}
  for i = 2, first, HOLD do
    local keeps = late(s, i)
    local tag, taken, amount, expires, source = s[i], s[i + 1], s[i + 2], s[i + 3], s[i + 4]
    if expires <= now and amount > 0 then
      if tag < FORGIVES then ended[#ended + 1], ended[#ended + 2] = taken, amount end
      amount = -amount
    end
    if expires > now or expires + keeps > now then
      s[to + 1], s[to + 2], s[to + 3], s[to + 4], s[to + 5] = tag, taken, amount, expires, source
      to = to + HOLD
    end
  end
  drop(s, to, first - to)
  s[1] = -quotient(to, HOLD)
  if s[1] == 0 then drop(s, 0, 1) end
  insert_all(stack, s, ended, now)
end

local function shift(stack, s, by)
  local list = list_of(s, 1)
  for i = 1, #list, 3 do
    list[i + 1] = back(stack, list[i + 1], by)
    if not stack.tagged then list[i] = back(stack, list[i], by) end
  end
  set_list(s, 0, list)
  for i = 2, holds_end(s), HOLD do s[i + 1], s[i + 3] = back(stack, s[i + 1], by), s[i + 3] - by end
end

-- advance brings a state to now, and returns whether it must be stored: it was shifted, or holds were ended,
-- which the next request would have to do again.
local function advance(stack, s, now)
  set_periods(stack, now)
  if not s.n then empty(s) end
  if s.n > 0 and s.last + stack.longest <= now then empty(s) end
  local newest, changed, expires = larger(now, s.last), false, FURTHEST
  local first = s[1] and holds_end(s) or 0
  for i = 2, first, HOLD do newest = larger(newest, s[i + 1]) end
  if newest > now then
    shift(stack, s, newest - now)
    changed = true
  end
  for i = 2, first, HOLD do expires = smaller(expires, ends(s, i)) end
  if expires <= now then
    end_holds(stack, s, now)
    changed = true
  end
  return changed
end

-- used returns the total of the runs that are later than since, and the number of the oldest of them.
local function used(s, since)
  local oldest, before = first_after(s, since)
  return s.total - before, oldest
end

-- open_holds returns how many holds are open and what they total.
local function open_holds(s, first)
  local open, held = 0, 0
  for i = 2, first, HOLD do
    if s[i + 2] > 0 then open, held = open + 1, held + s[i + 2] end
  end
  return open, held
end

-- find_hold returns where the numbers of the hold with a tag begin, nil if there is none.
local function find_hold(s, tag)
  for i = 2, holds_end(s), HOLD do
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
  for i = 2, first, HOLD do
    if s[i + 2] > 0 then last = larger(last, hold_leaves(rule, s, i)) end
  end
  return last
end

-- slot_wait returns how long fewer than most holds are not open.
local function slot_wait(s, first, most, now)
  local ends = {}
  for i = 2, first, HOLD do
    if s[i + 2] > 0 then ends[#ends + 1] = s[i + 3] end
  end
  if #ends < most then return 0 end
  table.sort(ends)
  return ends[#ends - most + 1] - now
end

-- held_wait is the wait for a key with holds. Runs stop counting in their order, so that only the holds are sorted.
local function held_wait(rule, s, first, now, cost)
  local total, i = used(s, since(rule, now))
  local before, order, at, held = s.total - total, {}, {}, 0
  for h = 2, first, HOLD do
    if s[h + 2] > 0 then order[#order + 1], held = h, held + s[h + 2] end
  end
  local excess, free, k = total + held + cost - rule.limit, now, 1
  if excess <= 0 then return 0 end
  for j = 1, #order do at[order[j]] = hold_leaves(rule, s, order[j]) end
  table.sort(order, function(a, b) return at[a] < at[b] end)
  local counts, sum -- of the run i
  while excess > 0 do
    if i > s.n then
      counts = FURTHEST
    elseif not counts then
      counts, sum = unpack_at('>I6I7', part(s, SIZE * i + TIME, SIZE * i + TIME + 12))
      counts = leaves(rule, counts)
    end
    local hold = order[k]
    if hold and at[hold] < counts then
      free, excess, k = at[hold], excess - s[hold + 2], k + 1
    else
      free, excess, before, i, counts = counts, excess - (sum - before), sum, i + 1, nil
    end
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
  local after, most = since(rule, now), rule.limit - cost
  if s.total - s.base <= most or s.last <= after then return 0 end
  local _, at = last_over(s, most)
  if at <= after then return 0 end
  return leaves(rule, at) - now
end

-- has returns whether a run later than after has the tag. See point_log.go about tags.
local function has(s, tag, after)
  if tag % VALUES == 0 then return false end
  local first = first_after(s, after)
  if first > s.n then return false end
  load(s)
  for i = first, s.n do
    if unpack_at('>I7', s.runs, SIZE * i + TIME - 7) == tag then return true end
  end
  return false
end

function amounts.ask(stack, s, now, cost, _, tag, hold)
  local rules, at, by, full = stack.rules, now, 0, false
  local changed = advance(stack, s, now)
  if stack.tagged and (tag >= FORGIVES or has(s, tag, now - stack.longest)) then return now, 0, 0, changed end
  local first = s[1] and holds_end(s) or 0
  hold = hold or 0
  if hold > 0 and find_hold(s, tag) then return now, 0, 0, changed end
  for i = 1, #rules do
    local its = wait(rules[i], s, first, now, cost, hold)
    if its == NEVER then return NEVER, NEVER, i, changed end
    if now + its > at then at, by = now + its, i end
  end
  if hold > 0 and #rules > 0 then
    local its = now + slot_wait(s, first, MAX_HOLDS, now)
    if its > at then at, by, full = its, #rules, true end
  end
  return at, by > 0 and at or 0, by, changed, full
end

-- grain returns how long a run that counts at a time may be.
local function grain(stack, at, now)
  local shortest, rules = stack.longest, stack.rules
  for i = 1, #rules do
    if at + rules[i].window > now then shortest = smaller(shortest, rules[i].window) end
  end
  return quotient(shortest, GRAINS)
end

-- merge merges neighbours from the newest to the oldest.
local function merge(stack, s, now)
  local list = list_of(s, 1)
  local to = #list - 3
  local length = grain(stack, list[to + 2], now)
  for i = to - 3, 0, -3 do
    if list[to + 2] - list[i + 1] <= length and not divides(stack, list[i + 2], list[to + 2]) then
      list[to + 1], list[to + 3] = smaller(list[to + 1], list[i + 1]), list[to + 3] + list[i + 3]
    else
      to = to - 3
      list[to + 1], list[to + 2], list[to + 3] = list[i + 1], list[i + 2], list[i + 3]
      length = grain(stack, list[to + 2], now)
    end
  end
  drop(list, 0, to)
  set_list(s, 0, list)
end

-- make_room prepares the runs of a state for some that total an amount.
local function make_room(stack, s, amount, now)
  if s.n > 0 and (must_trim(stack, s, now) or s.n >= stack.most or s.total - s.base + amount > MAX_TOTAL) then trim(stack, s, now) end
  if s.total + amount >= FURTHEST then set_list(s, 0, list_of(s, 1)) end
end

-- Those that no window contains any more are left out. All are added in one pass over the later runs.
insert_all = function(stack, s, added, now)
  local from, total = 1, 0
  while from < #added and added[from] + stack.longest <= now do from = from + 2 end
  for k = from + 1, #added, 2 do total = total + added[k] end
  if total <= 0 then return end
  make_room(stack, s, total, now)
  local i = first_after(s, added[from])
  if i > 1 and time_of(s, i - 1) == added[from] then i = i - 1 end
  local list, all, n, j = list_of(s, i), {}, 0, 1
  for k = from, #added, 2 do
    local at, amount = added[k], added[k + 1]
    while j < #list and list[j + 1] <= at do
      all[n + 1], all[n + 2], all[n + 3] = list[j], list[j + 1], list[j + 2]
      n, j = n + 3, j + 3
    end
    if n > 0 and all[n - 1] == at then
      all[n] = all[n] + amount
    else
      all[n + 1], all[n + 2], all[n + 3] = at, at, amount
      n = n + 3
    end
  end
  for k = j, #list do all[n + k - j + 1] = list[k] end
  set_list(s, i - 1, all)
  if s.n > stack.most then merge(stack, s, now) end
end

-- insert adds an amount at a time up to now, unless no window contains it any more.
local function insert(stack, s, at, amount, now)
  if amount <= 0 or at + stack.longest <= now then return end
  if at < s.last then return insert_all(stack, s, { at, amount }, now) end
  make_room(stack, s, amount, now)
  if at == s.last then return join(s, amount) end
  append(s, at, at, amount)
  if s.n > stack.most then merge(stack, s, now) end
end

-- add_amount charges an amount at now, as far as the total allows it.
local function add_amount(stack, s, now, amount)
  if s.total - s.base + amount > MAX_TOTAL then
    trim(stack, s, now)
    amount = smaller(amount, larger(0, MAX_TOTAL - (s.total - s.base)))
  end
  insert(stack, s, now, amount, now)
end

-- add_hold takes a hold. If there are as many as a key may have, the expired one that ended first
-- is forgotten.
local function add_hold(s, now, cost, tag, hold, source)
  if find_hold(s, tag) then return end
  local first = holds_end(s)
  if first == 0 then
    open_up(s, 0, 1)
    s[1], first = 0, 1
  elseif s[1] <= -MAX_HOLDS then
    local oldest
    for i = 2, first, HOLD do
      if s[i + 2] < 0 and (not oldest or s[i + 3] < s[oldest + 3]) then oldest = i end
    end
    if not oldest then return end
    drop_hold(s, oldest)
    first = first - HOLD
  end
  open_up(s, first, HOLD)
  s[first + 1], s[first + 2], s[first + 3], s[first + 4], s[first + 5] = tag, now, cost, now + hold, source or ''
  s[1] = s[1] - 1
end

-- forgive takes up to points from the newest runs of the item of tag.
local function forgive(s, tag, points)
  local item, list = quotient(tag - FORGIVES, VALUES), list_of(s, 1)
  for i = #list - 2, 1, -3 do
    if quotient(list[i], VALUES) == item then
      local taken = smaller(points, list[i + 2])
      points, list[i + 2] = points - taken, list[i + 2] - taken
    end
  end
  set_list(s, 0, list)
end

function amounts.add(stack, s, now, _, cost, _, tag, hold, source)
  if stack.tagged then
    if tag >= FORGIVES then
      trim(stack, s, now)
      forgive(s, tag, cost)
    elseif not has(s, tag, now - stack.longest) then
      if s.n > 0 and must_trim(stack, s, now) then trim(stack, s, now) end
      if s.total + cost >= FURTHEST then set_list(s, 0, list_of(s, 1)) end
      append(s, tag, now, cost)
    end
    return
  end
  if hold and hold > 0 then return add_hold(s, now, cost, tag, hold, source) end
  add_amount(stack, s, now, cost)
end

function amounts.room(stack, s, now)
  local rules, room = stack.rules, FURTHEST
  advance(stack, s, now)
  local first = holds_end(s)
  local _, held = open_holds(s, first)
  for i = 1, #rules do
    if rules[i].window > 0 then
      room = smaller(room, larger(0, rules[i].limit - used(s, since(rules[i], now)) - held))
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
      local total, oldest = used(s, since(rule, now))
      left = larger(0, rule.limit - total - held)
      if oldest <= s.n and rule.limit > 0 then reset = leaves(rule, s.last) - now end
    end
    if rule.window == 0 or rule.limit > 0 then reset = larger(reset, last_end(rule, s, first) - now) end
    list[#list + 1], list[#list + 2], list[#list + 3] = left, wait(rule, s, first, now, cost, 1), reset
  end
end

function amounts.ttl(stack, s, now)
  advance(stack, s, now)
  local first, ttl = s[1] and holds_end(s) or 0, 0
  if s.n > 0 then ttl = larger(0, s.last + stack.longest - now) end
  for i = 2, first, HOLD do
    ttl = larger(ttl, s[i + 3] + late(s, i) - now)
    if s[i + 2] > 0 then ttl = larger(ttl, s[i + 1] + stack.longest - now) end
  end
  return ttl
end

-- settle ends a hold, or renews it if extend is more than 0. A cost of -1 is what was held. It
-- returns the state of the hold (0 unknown, 1 open, 2 settled, 3 expired), what was held, what was
-- used, how much of that is beyond a limit, when the hold expires, and when it did before this renewed it; and
-- of an unknown hold whether the state must be stored, which it always must of others.
function amounts.settle(stack, s, now, tag, cost, extend)
  local changed = advance(stack, s, now)
  local i = find_hold(s, tag)
  if not i then return 0, 0, 0, 0, 0, 0, changed end
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
  insert(stack, s, taken, own, now)
  add_amount(stack, s, now, more)
  local over = 0
  if more > 0 then
    local first, rules = holds_end(s), stack.rules
    local _, still = open_holds(s, first)
    for j = 1, #rules do
      if rules[j].window > 0 then
        over = larger(over, smaller(more, used(s, since(rules[j], now)) + still - rules[j].limit))
      end
    end
  end
  return is_open and 2 or 3, held, cost, over, expires, 0
end

-- cancel removes an amount that was charged at a time up to now, and returns whether there was any; see
-- CancelCharge of amount_log.go.
function amounts.cancel(s, now, at, amount)
  if not s.n then empty(s) end
  if s.n == 0 or s.last > now then return false end
  -- The runs before the first of these were over by then.
  local from, freed = first_after(s, at - 1), false
  local list = list_of(s, from)
  for i = 1, #list, 3 do
    if amount <= 0 then break end
    if list[i] <= at and at <= list[i + 1] then
      local taken = smaller(amount, list[i + 2])
      list[i + 2], amount, freed = list[i + 2] - taken, amount - taken, true
    end
  end
  if freed then set_list(s, from - 1, list) end
  return freed
end

-- read adds the runs of a text to a state, and look only those of a head, the rest of which the key with a name has.
function amounts.read(s, text)
  open(s, text)
  s.runs = sub(text, HEAD_SIZE + 1)
  return #s.runs >= SIZE * s.n and s or nil
end

function amounts.look(text, name)
  local s = { name = name, n = 0, room = 0, last = 0, window = 0, drops = 0, total = 0, base = 0, runs = false, added = false } -- in one allocation
  open(s, text)
  return s
end

-- write returns the text of the runs, with room for some more.
function amounts.write(s)
  load(s)
  if #s.runs ~= SIZE * s.n then s.runs = sub(s.runs, 1, SIZE * s.n) end
  s.room = s.n + quotient(s.n, 8) + 1
  return head(s) .. s.runs .. string.rep('\0', SIZE * (s.room - s.n))
end

-- changes returns the head and the changed end of the runs of a state, and the position of this in the text, counted from 0: all
-- that must be written. It returns nil if the whole text must be.
function amounts.changes(s)
  local added = s.added
  if not added or s.runs or s[1] or s.n > s.room then return nil end
  s.added = false
  return head(s), added, HEAD_SIZE + SIZE * s.n - #added
end

-- holds returns when each open hold was taken, its amount, when it expires and its source.
function amounts.holds(s, now)
  local open = {}
  for i = 2, holds_end(s), HOLD do
    if s[i + 2] > 0 and s[i + 3] > now then open[#open + 1] = { s[i + 1], s[i + 2], s[i + 3], s[i + 4] } end
  end
  return open
end

-- numbers returns the numbers of a state as Go keeps them, with 0 for a source that is a text.
function amounts.numbers(s)
  if not s.n then empty(s) end
  local all, list, sum = {}, list_of(s, 1), 0
  for i = 1, #s do all[i] = type(s[i]) == 'number' and s[i] or 0 end
  for i = 1, #list, 3 do
    sum = sum + list[i + 2]
    all[#all + 1], all[#all + 2], all[#all + 3] = list[i], list[i + 1], sum
  end
  return all
end

return amounts
