-- The function library by which Redis decides. It is loaded behind a head that
-- names the library and sets
--   suffix      of the names of its functions, the hash of this text
--   max_ahead   timestamplog.MaxAhead
--
-- A log is a list of entries, the oldest first. An entry is a time in Unix
-- milliseconds, written plainly, or wrapped to a signed 32-bit integer, which
-- Redis keeps in 5 bytes instead of 9. Which of the two it is shows by its
-- size, so that a log may hold both. Windows over 12 days are written plainly.
--
-- A wrapped entry is placed by how far it lies behind the newest: less than
-- RANGE, 49.7 days, since every push drops what is as old as the window. The
-- newest itself is placed within half of RANGE around now: it is not older,
-- since the log would have expired, and where it may lie further ahead, the
-- clock having stepped back by weeks, the instant at which the log expires
-- tells its time. Only a Redis that was started anew since and finds its clock
-- more than 37 days behind would take it for an old one.

local HALF, RANGE = 2147483648, 4294967296
local DAY = 86400000
local LONGEST_WRAPPED = 12 * DAY
local CHUNK = 1000  -- values at a time to a command: unpack fails at some thousands
local NEVER = RANGE - 1

-- Redis 7.0 knows no libraries while it loads functions, only when it calls one.
-- Commands are given their numbers as texts where it matters, since Redis
-- writes a Lua number with 17 digits first.
local call, try, floor, format, byte, pack, concat

local function know_libraries()
  call, try = redis.call, redis.pcall
  floor, format, byte, pack, concat = math.floor, string.format, string.byte, struct.pack, table.concat
end

-- The present time; the latest that was ever seen, and whether it lies so far
-- ahead that the newest entry of a log can no longer be placed around now; and
-- the texts of an entry that is written now, wrapped and plain.
local now, latest, stepped_far, now_texts = 0, 0, false, {}

local function set_now(override)
  if not call then know_libraries() end
  if override ~= '' then
    now = tonumber(override)
  else
    local time = call('TIME')
    now = time[1] * 1000 + floor(time[2] / 1000)
  end
  if now > latest then latest = now end
  stepped_far, now_texts = latest - now > 20 * DAY, {}
end

-- The log at hand: the time of its newest entry, the same wrapped, and how old
-- that entry is, 0 where it lies ahead and the whole log is to be moved back.
local newest_time, newest_wrapped, newest_age

local function set_newest(time)
  newest_time, newest_wrapped = time, time % RANGE
  newest_age = now - time
  if -newest_age > max_ahead then newest_age = 0 end
end

local function is_wrapped(value) return value < HALF and value >= -HALF end

-- find_newest places the newest entry of a log whose window is at most that.
local function find_newest(key, entry, window)
  local value = tonumber(entry)
  if not is_wrapped(value) then return set_newest(value) end
  local behind = (now - value) % RANGE
  if behind >= HALF then behind = behind - RANGE end
  local time = now - behind
  if stepped_far or behind >= window then
    local expires = call('PEXPIRETIME', key)
    time = expires - (expires - time) % RANGE
  end
  set_newest(time)
end

-- age returns how many milliseconds old an entry of the log at hand is.
local function age(entry)
  local value = tonumber(entry)
  if value < HALF and value >= -HALF then return newest_age + (newest_wrapped - value) % RANGE end
  return newest_age + newest_time - value
end

-- text writes the time that is behind milliseconds before now.
local function text(behind, plain)
  local value = now - behind
  if not plain then
    value = value % RANGE
    if value >= HALF then value = value - RANGE end
  end
  return format('%.0f', value)
end

-- Stacks that were read before, by their text. A stack in use is soon read
-- again, so forgetting all of them now and then bounds the memory.
local stacks, stack_count = {}, 0
local MOST_STACKS = 4096

-- read_stack reads "keep window limit window limit window ...": what a log
-- keeps, in entries and milliseconds, and the rules in their order.
local function read_stack(written)
  local stack = stacks[written]
  if stack then return stack end
  local numbers = {}
  for number in written:gmatch('%d+') do numbers[#numbers + 1] = tonumber(number) end
  stack = { keep = numbers[1], window = numbers[2], plain = numbers[2] > LONGEST_WRAPPED, rules = {}, by_limit = {} }
  stack.trim = format('%d', -stack.keep)
  for i = 3, #numbers, 2 do
    local rule = { limit = numbers[i], window = numbers[i + 1], index = #stack.rules }
    rule.boundary = format('%d', -rule.limit)  -- the index of its boundary at a cost of 1
    stack.rules[#stack.rules + 1] = rule
    stack.by_limit[#stack.by_limit + 1] = rule
  end
  -- By limit, so that the first index that is missing ends the search.
  table.sort(stack.by_limit, function(a, b)
    if a.limit ~= b.limit then return a.limit < b.limit end
    return a.index < b.index
  end)
  if stack_count >= MOST_STACKS then stacks, stack_count = {}, 0 end
  stacks[written], stack_count = stack, stack_count + 1
  return stack
end

-- expire lets a log whose newest entry is now expire when it may.
local function expire(key, stack)
  if stack.expires_of ~= now then
    stack.expires_of, stack.expires = now, format('%.0f', now + stack.window)
  end
  call('PEXPIREAT', key, stack.expires)
end

-- rewrite writes the log at hand anew, moved back where it lies ahead. Even what
-- a stack of 31 days left behind can be wrapped: the next push under a shorter
-- one drops it, before it lies RANGE behind the newest.
local function rewrite(key, stack)
  local entries = call('LRANGE', key, 0, -1)
  for i = 1, #entries do entries[i] = text(age(entries[i]), stack.plain) end
  call('DEL', key)
  for from = 1, #entries, CHUNK do
    call('RPUSH', key, unpack(entries, from, math.min(from + CHUNK - 1, #entries)))
  end
  set_newest(now - newest_age)
end

-- drop_old drops the entries that are as old as the stack's window. It returns
-- the age of the oldest entry where it dropped none.
local function drop_old(key, stack)
  local oldest_age = age(call('LINDEX', key, '0'))
  if oldest_age < stack.window then return oldest_age end
  local low, high = 0, call('LLEN', key)  -- low is old; high is young or missing
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if age(call('LINDEX', key, middle)) >= stack.window then low = middle else high = middle end
  end
  call('LTRIM', key, high, -1)
end

-- push logs cost entries at now and drops all but as many as the stack keeps.
-- It returns how many entries there are then, and whether it dropped any.
local function push(key, stack, cost)
  local entry = now_texts[stack.plain]
  if not entry then
    entry = text(0, stack.plain)
    now_texts[stack.plain] = entry
  end
  local length
  if cost == 1 then
    length = call('RPUSH', key, entry)
  else
    local entries = {}
    for i = 1, cost do entries[i] = entry end
    length = call('RPUSH', key, unpack(entries))
  end
  local over = length > stack.keep
  if over then
    call('LTRIM', key, stack.trim, '-1')
    length = stack.keep
  end
  expire(key, stack)
  set_newest(now)
  return length, over
end

-- boundary returns the age of the entry that rule waits for before it allows
-- cost, nil where there is none.
local function boundary(key, rule, cost)
  local index = rule.limit - cost + 1
  if index == 1 then return newest_age end
  local entry = call('LINDEX', key, cost == 1 and rule.boundary or format('%d', -index))
  return entry and age(entry)
end

-- younger narrows the range in which the window ends: the low-th newest entry
-- is younger than it and the high-th is not. Requests come at some rate, so it
-- guesses by proportion, and halves where that does not help. It returns how
-- many are younger, the age of the last of these, and that of the next.
local function younger(key, window, low, low_age, high, high_age)
  local by_rate = true
  while high - low > 1 do
    local index = floor((low + high) / 2)
    if by_rate then
      index = low + floor((high - low) * (window - low_age) / (high_age - low_age))
      if index <= low then index = low + 1 elseif index >= high then index = high - 1 end
    end
    by_rate = not by_rate
    local its_age = age(call('LINDEX', key, format('%d', -index)))
    if its_age < window then low, low_age = index, its_age else high, high_age = index, its_age end
  end
  return low, low_age, high_age
end

-- states writes what each rule has left: for each its remaining and its wait,
-- 4 bytes each; then, in 4 bytes, how long that holds, but for the waits running
-- down, while nothing is pushed: until the first entry leaves a window, and no
-- longer than the log lasts. length
-- is of the log at hand, 0 where there is none, and oldest_age of its oldest
-- entry, nil where that is not known yet. As windows grow from rule to rule,
-- what one rule found out spares the next a search.
local function states(key, stack, cost, length, oldest_age, holds)
  local written = {}
  -- The low-th newest is younger than the window; next_age, where known, is of
  -- the one after it.
  local low, low_age, next_age = 1, newest_age, nil
  for i, rule in ipairs(stack.rules) do
    local limit, window, count = rule.limit, rule.window, 0
    if length > 0 and newest_age < window then
      if next_age and next_age < window then low, low_age, next_age = low + 1, next_age, nil end
      -- What lies beyond the limit does not change what remains.
      if not next_age and low < limit and low < length then
        local high, high_age = limit, nil
        if length <= limit then
          oldest_age = oldest_age or age(call('LINDEX', key, '0'))
          high, high_age = length, oldest_age
        else
          high_age = age(call('LINDEX', key, rule.boundary))
        end
        if high_age < window then
          low, low_age = high, high_age
        else
          low, low_age, next_age = younger(key, window, low, low_age, high, high_age)
        end
      end
      count = low
      if window - low_age < holds then holds = window - low_age end
    end
    local wait, index = 0, limit - cost + 1
    if index < 1 then
      wait = NEVER
    elseif index == count then
      wait = window - low_age
    elseif index < count then
      wait = window - boundary(key, rule, cost)
    end
    written[i] = pack('>I4I4', math.max(0, limit - count), wait)
  end
  written[#written + 1] = pack('>I4', holds)
  return concat(written)
end

local PEEK, DETAIL = 1, 2
local ALLOWED, REFUSED, FOREIGN = '\0', '\1', '\2'

-- decide answers one request; see decide_many for what it returns.
local function decide(key, stack, cost, flags)
  local rules = stack.by_limit
  if #rules == 0 then return ALLOWED end
  local newest = try('LINDEX', key, '-1')
  if type(newest) == 'table' then return FOREIGN end  -- an error: another kind of value

  local peek, detail = flags % 2 == PEEK, flags >= DETAIL
  if newest then find_newest(key, newest, stack.window) end

  local longest, by = 0, nil
  for i = 1, #rules do
    local rule = rules[i]
    if rule.limit < cost then
      longest, by = NEVER, rule
      break
    end
    local its_age = newest and boundary(key, rule, cost)
    if not its_age then break end
    local wait = rule.window - its_age
    if wait > longest then longest, by = wait, rule end
  end

  if newest and not peek then
    if newest_time - now > max_ahead then
      rewrite(key, stack)
      if by then expire(key, stack) end
    elseif not by and stack.plain and is_wrapped(tonumber(newest)) then
      rewrite(key, stack)
    end
  end
  local length, answer, oldest_age, lasts = nil, nil, nil, NEVER
  if by then
    -- A stack with a shorter window may have left a log that goes before.
    if newest and not peek then lasts = call('PEXPIRETIME', key) - now end
    answer = REFUSED .. pack('>BI4I4', by.index, longest, peek and 0 or math.min(longest, lasts))
  else
    answer = ALLOWED
    if not peek then
      if newest then oldest_age = drop_old(key, stack) end
      local dropped
      length, dropped = push(key, stack, cost)
      if dropped then oldest_age = nil end
    end
  end
  if not detail then return answer end
  return answer .. states(key, stack, cost, length or newest and call('LLEN', key) or 0, oldest_age, lasts)
end

-- stint_decide answers requests, each in its turn as if it came alone.
-- KEYS    the log of each request
-- ARGV 1  the present time in milliseconds; empty for Redis's own, the only
--         clock but in tests
-- ARGV 2  each request in 4 bytes: which stack, counted from 1; its cost in
--         two bytes, the higher first; 1 for a peek plus 2 for detail
-- ARGV 3+ the stacks, as read_stack reads them
-- return  one string: the time of all decisions in 8 bytes, then for each
--         request 0 for allowed, or 1 for refused, the index of the rule in 1
--         byte, its wait in 4 and how long the refusal lasts if nothing is
--         pushed in 4 (0 for a peek), or 2 where the key holds something else;
--         then, where detail was asked and the log could be read, the
--         states. Numbers are big-endian; a wait of 2^32 - 1 never ends.
local function decide_many(keys, args)
  set_now(args[1])
  local requests = args[2]
  local answers = { pack('>I8', now) }
  for i = 1, #keys do
    local stack, cost_high, cost_low, flags = byte(requests, 4 * i - 3, 4 * i)
    answers[i + 1] = decide(keys[i], read_stack(args[2 + stack]), 256 * cost_high + cost_low, flags)
  end
  return concat(answers)
end

-- stint_times reads a log.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- ARGV 2  how many times at most
-- return  the present time, then the times that are younger than the window
--         after which the log expires, the newest first, as decimal strings
local function times(keys, args)
  set_now(args[1])
  local found = { format('%.0f', now) }
  local most = tonumber(args[2])
  local newest = call('LINDEX', keys[1], -1)
  if not newest or most < 1 then return found end
  find_newest(keys[1], newest, 0)
  local window = call('PEXPIRETIME', keys[1]) - newest_time
  local entries = call('LRANGE', keys[1], -most, -1)
  for i = #entries, 1, -1 do
    local its_age = age(entries[i])
    if its_age >= window then break end
    found[#found + 1] = text(its_age, true)
  end
  return found
end

redis.register_function('stint_decide_' .. suffix, decide_many)
redis.register_function{ function_name = 'stint_times_' .. suffix, callback = times, flags = { 'no-writes' } }
