-- The function library that decides in Redis. library.go puts a header before it, which
-- names the library and defines suffix, the hash of the text that ends the names of its
-- functions, and the bounds of package timestamplog: MAX_WAIT and ID_LIFETIME in
-- milliseconds, and MAX_RESERVED. ids.lua, reservations.lua and the other parts follow it.
--
-- A log is one string, so that a decision needs one command to read and one to write:
-- most of the cost of a decision is passing from Lua to a command and back.
--
--   head     28 bytes, see HEAD
--   recent   the newest entries, newest first. If there are blocks, there is room for
--            SLOTS entries, otherwise for a few more than there are.
--   blocks   a ring of blocks with BLOCK older entries each, newest first in each block.
--            The oldest block may have fewer that still count.
--
-- A push rewrites the head and the recent entries in place. When SLOTS are full, the older
-- ones become the next block of the ring. The whole string is written only if the log grows,
-- or if a quarter of a large ring would be enough: Redis would double a string that grows in
-- place, and a log of the maximum length has exactly the room that it needs.
--
-- An entry is a stamp: the low 32 bits of a count of milliseconds with an arbitrary start,
-- so that only differences have a meaning. The head has the time of the newest entry. The
-- time of any other entry follows from the difference of its stamp to the newest one, and
-- shifting the whole log means writing the head. Each push drops entries that are as old as
-- the window, which is at most 31 days, and 32 bits distinguish 49 days.
--
-- Entries of reservations in the future are the newest ones. The head has their number,
-- until a request that does not wait is logged after them.

local RANGE = 4294967296
local NEVER = RANGE - 1

-- The fields of the head: magic; the number of recent entries; the time of the newest entry
-- (the high 16 bits and the low 32); the milliseconds after which the log expires; how much
-- later Redis drops it; a stamp that is as old as the oldest entry or older; the position of
-- the newest block in the ring; the number of blocks that the ring has room for; and the
-- number of entries in blocks. With the magic RESERVED, Redis drops the log when it expires,
-- and the fifth field is how many of the newest entries belong to reservations.
local HEAD, HEAD_SIZE, MAGIC, RESERVED = '>I1I1I2I4I4I4I4I2I2I4', 28, 83, 84
local SLOTS, BLOCK = 64, 32
local RING = HEAD_SIZE + 4 * SLOTS  -- where the ring begins
local FIRST_READ = '283'            -- RING - 1
local WHOLE = 4096                  -- a log with at most so many old entries is read whole to count it
local SMALL = 16                    -- a ring with room for at most so many blocks never shrinks

-- Redis 7.0 has no libraries such as math while it loads functions, only when it calls one.
-- On fast paths, numbers are passed to commands as strings, because Redis would first
-- format a Lua number with 17 digits.
local call, try, floor, min, max, format, byte, sub, rep, pack, unpack_at, concat

local function find_libraries()
  call, try = redis.call, redis.pcall
  floor, min, max = math.floor, math.min, math.max
  format, byte, sub, rep, concat = string.format, string.byte, string.sub, string.rep, table.concat
  pack, unpack_at = struct.pack, struct.unpack
end

local now = 0  -- the present time in Unix milliseconds

-- set_now sets now from the first argument of a function. If that is empty, or '<' and the
-- deadline of the call, now is the time of Redis's clock, and set_now returns whether the
-- deadline has passed. Otherwise the argument is the time, which only tests pass.
local function set_now(written)
  if not call then find_libraries() end
  local first = byte(written)
  if first and first ~= 60 then
    now = tonumber(written)
    return false
  end
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
  return first and now >= tonumber(sub(written, 2))
end

-- The cache of parsed stacks, by their text. It is cleared when it is full; stacks in use
-- are soon parsed again.
local stacks, stack_count = {}, 0
local MAX_STACKS = 4096

-- use_algorithm sets another algorithm for a stack; see counters.lua.
local use_algorithm

-- read_stack parses "keep window limit window limit window ...": how many entries a log
-- keeps and for how many milliseconds, and the rules in their order. For algorithms other
-- than the timestamp log, the text that use_algorithm parses precedes it. "@1:start,start,start"
-- follows for a rule of the calendar, by its position: when the periods around now begin.
local function read_stack(written)
  local stack = stacks[written]
  if stack then return stack end
  local sliding, calendars = written:match('^([^@]*)(.*)$')
  local numbers, algorithm, kept = {}, sliding:match('^(%a%S*) (.*)$')
  for number in (kept or sliding):gmatch('%d+') do numbers[#numbers + 1] = tonumber(number) end
  stack = { keep = numbers[1], window = numbers[2], rules = {}, by_limit = {} }
  for i = 3, #numbers, 2 do
    local rule = { limit = numbers[i], window = numbers[i + 1], index = #stack.rules }
    stack.rules[#stack.rules + 1] = rule
    stack.by_limit[#stack.by_limit + 1] = rule
  end
  for position, list in calendars:gmatch('@(%d+):([%d,]+)') do
    local starts = {}
    for start in list:gmatch('%d+') do starts[#starts + 1] = tonumber(start) end
    stack.rules[tonumber(position)].starts = starts
  end
  -- Redis drops a log somewhat later than it expires, so that not every push must set the
  -- expiry.
  stack.margin = max(floor(stack.window / 8), 1000)
  -- Sorted by limit, so that a search ends at the first index without an entry.
  table.sort(stack.by_limit, function(a, b)
    if a.limit ~= b.limit then return a.limit < b.limit end
    return a.index < b.index
  end)
  if algorithm then use_algorithm(stack, algorithm) end
  if stack_count >= MAX_STACKS then stacks, stack_count = {}, 0 end
  stacks[written], stack_count = stack, stack_count + 1
  return stack
end

-- The current log. If count is 0, it is empty and its other fields have no meaning.
local key           -- its name
local text          -- its string, or the beginning of it that has been read
local count         -- its entries
local recent, old   -- how many of them are recent, and how many are in blocks
local top, room     -- the position of the newest block, and for how many there is room
local newest, newest_age, newest_stamp  -- newest_age is 0 if newest is in the future
local window, slack, oldest             -- see HEAD
local reserved      -- how many of the newest entries belong to reservations
local ordinary      -- whether reserved is 0 and newest is not in the future

-- is_data_error reports whether an error, given by its text, comes from what a key holds:
-- Lua could not calculate with it, or a command found another type of value or got a number
-- without a meaning. All other errors of Redis, which begin with a code such as OOM, concern
-- the server or the user.
local function is_data_error(its)
  if not its:find('^%u+ ') then return true end
  return its:find('^WRONGTYPE') or its:find('^ERR value is not') or its:find('not a float', 1, true) or its:find('^ERR invalid expire')
end

-- is_foreign reports whether the reply of a command that was called with try is an error that
-- comes from what its key holds. It raises any other error.
local function is_foreign(its)
  if type(its) ~= 'table' or not its.err then return false end
  if not is_data_error(its.err) then error(its, 0) end
  return true
end

-- open reads the log with a name and makes it the current one. It returns false if the key
-- holds something else.
local function open(name)
  key, text, count, recent, old, top, room = name, try('GETRANGE', name, '0', FIRST_READ), 0, 0, 0, 0, 0
  reserved, ordinary = 0, true
  if text == '' then return true end
  if type(text) == 'table' and is_foreign(text) or #text < HEAD_SIZE + 4 then return false end
  local magic, high, low
  magic, recent, high, low, window, slack, oldest, top, room, old, newest_stamp = unpack_at('>I1I1I2I4I4I4I4I2I2I4I4', text)
  if magic ~= MAGIC then
    if magic ~= RESERVED then return false end
    reserved, slack, ordinary = slack, 0, false
  end
  if recent > SLOTS or #text < HEAD_SIZE + 4 * recent or old > 0 and (recent == 0 or top >= room or old > BLOCK * room or #text < RING) then
    return false
  end
  newest = high * RANGE + low
  newest_age = now - newest
  if newest_age >= window then  -- it has expired
    text, recent, old, room, reserved, ordinary = '', 0, 0, 0, 0, true
    return true
  end
  if newest_age < 0 then newest_age, ordinary = 0, false end
  count = recent + old
  return true
end

-- position returns the offset in the string of the i-th newest entry, which is not recent.
local function position(i)
  local behind = i - recent - 1
  local within = behind % BLOCK
  return RING + 4 * (BLOCK * ((top - (behind - within) / BLOCK) % room) + within)
end

local function stamp(i)
  if i <= recent then return (unpack_at('>I4', text, HEAD_SIZE - 3 + 4 * i)) end
  local at = position(i)
  if at < #text then return (unpack_at('>I4', text, at + 1)) end
  return (unpack_at('>I4', call('GETRANGE', key, at, at + 3)))
end

-- age returns how many milliseconds old the i-th newest entry is: now, or at the time of the
-- newest entry if that is in the future.
local function age(i)
  if i == 1 then return newest_age end
  return newest_age + (newest_stamp - stamp(i)) % RANGE
end

-- read_whole reads the rest of a log with blocks, of which the first read left out most, if
-- it has at most max_old old entries and its ring is not much larger.
local function read_whole(max_old)
  if old > 0 and old <= max_old and BLOCK * room <= 2 * max_old then text = call('GETRANGE', key, '0', '-1') end
end

-- entries returns the stamps of the n newest entries, in the form of the string.
local function entries(n)
  if n <= recent then return sub(text, HEAD_SIZE + 1, HEAD_SIZE + 4 * n) end
  read_whole(RANGE)
  local parts, left = { sub(text, HEAD_SIZE + 1, HEAD_SIZE + 4 * recent) }, n - recent
  for i = recent + 1, n, BLOCK do
    local at = position(i)
    parts[#parts + 1] = sub(text, at + 1, at + 4 * min(BLOCK, left))
    left = left - BLOCK
  end
  return concat(parts)
end

local function head()
  local high = floor(newest / RANGE)
  local magic, spare = MAGIC, slack
  if reserved > 0 then magic, spare = RESERVED, reserved end
  return pack(HEAD, magic, recent, high, newest - high * RANGE, window, spare, oldest, top, room, old)
end

-- set_newest sets the time of the newest entry, now or that of a reservation, and when the
-- log expires under stack. It returns whether the expiry in Redis must be set.
local function set_newest(stack, at)
  local drops = count > 0 and newest + window + slack or 0
  newest, newest_age, window = at, 0, stack.window
  slack = 0
  if reserved > 0 then return true end
  slack = drops - at - window
  if slack >= 0 and slack <= stack.margin then return false end
  slack = stack.margin
  return true
end

local function drops_at() return format('%.0f', newest + window + slack) end

-- shift_log shifts all times of the current log so that at is that of its newest entry.
local function shift_log(stack, at)
  local must_expire = set_newest(stack, at)
  call('SETRANGE', key, '0', head())
  if must_expire then call('PEXPIREAT', key, drops_at()) end
end

-- younger finds out how many entries are younger than within, where the low-th newest entry
-- is and the high-th is not. As requests tend to come at a steady rate, it interpolates in
-- every other step, and bisects in the others. It returns that number, the age of the last of
-- these entries, and the age of the next one.
local function younger(within, low, low_age, high, high_age)
  local by_rate = true
  while high - low > 1 do
    local index = floor((low + high) / 2)
    if by_rate then
      index = low + floor((high - low) * (within - low_age) / (high_age - low_age))
      if index <= low then index = low + 1 elseif index >= high then index = high - 1 end
    end
    by_rate = not by_rate
    local its_age = age(index)
    if its_age < within then low, low_age = index, its_age else high, high_age = index, its_age end
  end
  return low, low_age, high_age
end

-- drop removes the entries that are as old as span or older, and all but the newest
-- max_count.
local function drop(span, max_count)
  local keep = min(count, max_count)
  if keep > 0 and newest_age + (newest_stamp - oldest) % RANGE >= span then
    local its_age = age(keep)
    if newest_age >= span then
      keep = 0
    elseif its_age >= span then
      keep = younger(span, 1, newest_age, keep, its_age)
    end
    if keep > 0 then oldest = stamp(keep) end
  end
  if keep == count then return end
  count, recent = keep, min(recent, keep)
  old = keep - recent
end

-- rewrite writes the whole string of the current log, with these stamps and room for more.
local function rewrite(stack, stamps)
  local parts, padding
  count = #stamps / 4
  if count <= SLOTS then
    recent, old, top, room = count, 0, 0, 0
    padding = 4 * (max(count, min(count + max(3, floor(count / 4)), SLOTS, stack.keep)) - count)
    parts = { '', stamps }
  else
    recent = BLOCK
    old = count - recent
    local used = math.ceil(old / BLOCK)
    room = min(used + 1 + floor(used / 8), math.ceil(stack.keep / BLOCK) + 1)
    room, top = max(room, used + 1), used - 1
    padding = 4 * BLOCK * (room - used)
    parts = { '', sub(stamps, 1, 4 * recent), rep('\0', 4 * (SLOTS - recent)) }
    for from = used, 1, -1 do
      local at = 4 * (recent + BLOCK * (from - 1))
      local block = sub(stamps, at + 1, at + 4 * BLOCK)
      parts[#parts + 1] = block .. rep('\0', 4 * BLOCK - #block)
    end
  end
  parts[1], parts[#parts + 1] = head(), rep('\0', padding)
  text = concat(parts)
  call('SET', key, text, 'PXAT', drops_at())
end

-- append writes cost entries at a time that is not before the newest entry.
local function append(stack, cost, at)
  local its_stamp = at % RANGE
  if count > 0 then its_stamp = (newest_stamp + at - newest) % RANGE end
  if count == 0 then oldest = its_stamp end
  local fresh = pack('>I4', its_stamp)
  if cost > 1 then fresh = rep(fresh, cost) end
  -- A log that grows is written whole, as is one whose ring has become much too large.
  local fits, fills_block = false, false
  if room <= SMALL or 4 * old >= BLOCK * room then
    fits = room == 0 and HEAD_SIZE + 4 * (recent + cost) <= #text or room > 0 and recent + cost <= SLOTS
    fills_block = room > 0 and not fits and recent + cost <= SLOTS + BLOCK and old <= BLOCK * (room - 1)
  end
  if not fits and not fills_block then
    local stamps = fresh .. (count > 0 and entries(count) or '')
    set_newest(stack, at)
    slack = reserved > 0 and 0 or stack.margin
    newest_stamp = its_stamp
    return rewrite(stack, stamps)
  end
  local stamps = sub(text, HEAD_SIZE + 1, HEAD_SIZE + 4 * recent)
  recent, count = recent + cost, count + cost
  if fills_block then
    recent, old, top = recent - BLOCK, old + BLOCK, (top + 1) % room
    stamps = fresh .. stamps
    call('SETRANGE', key, RING + 4 * BLOCK * top, sub(stamps, 4 * recent + 1))
    fresh, stamps = '', sub(stamps, 1, 4 * recent)
  end
  local must_expire = set_newest(stack, at)
  newest_stamp = its_stamp
  text = head() .. fresh .. stamps
  call('SETRANGE', key, '0', text)
  if must_expire then call('PEXPIREAT', key, drops_at()) end
end

-- push logs cost entries at now, in a log without entries in the future, and drops what the
-- stack does not keep.
local function push(stack, cost)
  if count > 0 then drop(stack.window, stack.keep - cost) end
  reserved = 0
  append(stack, cost, now)
end

-- states returns the state of each rule: its remaining count and its wait, 4 bytes each. Then
-- follow, in 4 bytes, for how long this stays true while nothing is pushed, apart from the
-- waits, which run down: until the first entry leaves a window, at most holds; and, in 8
-- bytes, the time of the newest entry, 0 for none. Windows grow from rule to rule, so the
-- search for one rule begins where that for the rule before it ended. lift is how far the
-- newest entry is in the future.
local function states(stack, cost, holds, lift)
  read_whole(WHOLE)
  local written, rules = {}, stack.rules
  -- The low-th newest entry is younger than the window. next_age is the age of the one after
  -- it, nil if it is not known.
  local low, low_age, next_age = 1, newest_age, nil
  for i = 1, #rules do
    local limit, span, used = rules[i].limit, rules[i].window, 0
    if count > 0 and newest_age < span then
      if next_age and next_age < span then low, low_age, next_age = low + 1, next_age, nil end
      -- Entries beyond the limit do not change what remains.
      local high = min(limit, count)
      if not next_age and low < high then
        local high_age = age(high)
        if high_age < span then
          low, low_age = high, high_age
        else
          low, low_age, next_age = younger(span, low, low_age, high, high_age)
        end
      end
      used = low
      if span - low_age < holds then holds = span - low_age end
    end
    local wait, index = lift, limit - cost + 1
    if index < 1 then
      wait = NEVER
    elseif index == used then
      wait = lift + span - low_age
    elseif index < used then
      wait = lift + span - age(index)
    end
    written[i] = pack('>I4I4', max(0, limit - used), wait)
  end
  written[#written + 1] = pack('>I4I8', holds, count > 0 and now + lift - newest_age or 0)
  return concat(written)
end

-- The flags of a request; see stint_decide and stint_reserve.
local PEEK, DETAIL, ALWAYS, UNCHARGED = 1, 2, 4, 8
local ALLOWED, REFUSED, FOREIGN, REPEATED, DENIED, ELSEWHERE = '\0', '\1', '\2', '\3', '\6', '\7'

-- WRITTEN precedes states. If at most SENT entries are in blocks, of a ring that is not much
-- larger, the log itself is sent instead, which begins with MAGIC: the node then computes the
-- states, which would cost Redis as much as the decision.
local WRITTEN, SENT = '\0', 256

-- log_to_send returns the string of the current log, nil if its states must be sent.
local function log_to_send()
  if count == 0 or old > SENT or BLOCK * room > 2 * SENT then return nil end
  if old > 0 then
    local whole = call('GETRANGE', key, '0', '-1')
    if #whole < RING + 4 * BLOCK * room then error('the ring has been cut') end
    return whole
  end
  local size = HEAD_SIZE + 4 * recent
  return #text == size and text or sub(text, 1, size)
end

-- longest_wait returns the longest wait that a rule demands of a request with cost, and that
-- rule; min_wait and nil if none demands more than min_wait. age_at(i, view) returns the age
-- of the i-th newest of entry_count entries.
local function longest_wait(stack, cost, min_wait, entry_count, age_at, view)
  local rules, longest, by = stack.by_limit, min_wait, nil
  for i = 1, #rules do
    local rule = rules[i]
    local index = rule.limit - cost + 1
    if index < 1 then return NEVER, rule end
    if index > entry_count then break end
    local wait = rule.window - age_at(index, view)
    if wait > longest then longest, by = wait, rule end
  end
  return longest, by
end

-- decide_rare decides requests that need more than the fast path; see reservations.lua.
local decide_rare

-- known_reservation looks up an id, and add_id stores one; see ids.lua.
local known_reservation, add_id

-- decide returns the answer to one request, in the form that stint_decide describes, or
-- stint_reserve if the request has an id; and its states, '' for none. ids is the name of the
-- set of ids.
local function decide(name, stack, cost, flags, id, ids)
  if #stack.rules == 0 then return ALLOWED, '' end
  if stack.counting and flags == 0 and not id then
    local answer = stack.engine.decide_plainly(name, stack, cost)
    if answer then return answer, '' end
  end
  if stack.engine or not open(name) or not ordinary then return decide_rare(name, stack, cost, flags, id, ids), '' end
  local peek, special = flags % 2 == PEEK, flags >= DETAIL  -- detail or UNCHARGED or both
  local known, known_cost, expires
  if id and not peek then known, known_cost, expires = known_reservation(ids, id) end
  local longest, by = longest_wait(stack, cost, 0, count, age)
  local answer, ttl = ALLOWED, NEVER
  if known then
    answer = REPEATED .. pack('>I8I4', known, known_cost)
  elseif by then
    -- A stack with a shorter window may have left a log that expires before the wait ends.
    if (not peek or flags >= UNCHARGED) and count > 0 then ttl = newest + window - now end
    answer = REFUSED .. pack('>BI4I4', by.index, longest, peek and flags < UNCHARGED and 0 or min(longest, ttl))
  elseif not peek then
    push(stack, cost)
    if id then add_id(ids, id, now, cost, expires) end
  end
  if not special or flags % ALWAYS < DETAIL then return answer, '' end
  return answer, log_to_send() or WRITTEN .. states(stack, cost, ttl, 0)
end

-- is_denied reports whether an error, given by its text, says that the user lacks the right
-- to a command. The texts of Redis 7.0 and of newer servers differ.
local function is_denied(its)
  return its:find('NOPERM', 1, true) or its:find("can't run this command", 1, true) or its:find('permissions to run', 1, true)
end

-- is_elsewhere reports whether an error, given by its text, says that this primary of a
-- Cluster does not have a key: it lacks the slot, nobody has it, or the slot is moving and the
-- key is not here or not here any more. The other texts are those of servers that allow a call
-- only keys of one slot, or only declared ones.
local function is_elsewhere(its)
  return its:find('non local key', 1, true) or its:find('slot not served', 1, true) or its:find('same slot', 1, true)
    or its:find('undeclared', 1, true)
end

-- keyed_error returns what Redis answers to a call that declares its keys in place of an error,
-- given by its text; nil if it is the same.
local function keyed_error(its)
  if its:find('cluster is down', 1, true) then return { err = 'CLUSTERDOWN The cluster is down' } end
  if its:find("can't access at least one of the keys", 1, true) or its:find('ermissions to access', 1, true) then
    return { err = 'NOPERM No permissions to access a key' }
  end
end

-- try_call calls f. It returns nil, or the answer to a request that failed alone: FOREIGN
-- because of what a key holds, DENIED because the user lacks the right to a command, ELSEWHERE
-- because another primary has the key. It raises any other error.
local function try_call(f, ...)
  local done, err = pcall(f, ...)
  if done then return nil end
  if type(err) ~= 'table' then err = { err = tostring(err) } end  -- Redis 7.0 raises a string
  local its = err.err or ''
  if is_denied(its) then return DENIED end
  if is_elsewhere(its) then return ELSEWHERE end
  local keyed = keyed_error(its)
  if not keyed and is_data_error(its) then return FOREIGN end
  error(keyed or err, 0)
end

-- joined concatenates answers. If there are many, it returns an array of strings to
-- concatenate: Redis's Lua hashes each byte of a string that it creates, and table.concat
-- creates what is longer than its buffer twice. Plain version: concat(answers). Benchmark:
-- BenchmarkServer, allowed with detail and 64 keys, 4% less processor time.
local FEW, BUFFER = 32, 8192
local function joined(answers)
  if #answers <= FEW then return concat(answers) end
  local parts, first, size = {}, 1, 0
  for i = 1, #answers do
    size = size + #answers[i]
    if size > BUFFER then
      parts[#parts + 1] = concat(answers, '', first, i - 1)
      first, size = i, #answers[i]
    end
  end
  parts[#parts + 1] = concat(answers, '', first)
  return parts
end

-- The number of the current request in its call, counted from 1.
local asked

-- answer_each calls rest, which answers the requests after the asked-th and increments asked,
-- until all are answered. The answer of the n-th request is in answers[2 * n], and its states
-- follow. A request that fails alone gets the answer of try_call. It creates no function,
-- which would make a call of one request a tenth more expensive.
local function answer_each(rest, keys, args, answers)
  asked = 0
  while true do
    local failed = try_call(rest, keys, args, answers)
    if not failed then return joined(answers) end
    answers[2 * asked], answers[2 * asked + 1] = failed, ''
  end
end

local function decide_rest(keys, args, answers)
  local requests = args[2]
  for i = asked + 1, #keys do
    asked = i
    local stack, cost_high, cost_low, flags = byte(requests, 4 * i - 3, 4 * i)
    answers[2 * i], answers[2 * i + 1] = decide(keys[i], read_stack(args[2 + stack]), 256 * cost_high + cost_low, flags)
  end
end

-- stint_decide decides requests one after the other, each by itself.
-- KEYS    the log of each request
-- ARGV 1  the deadline of the call in milliseconds, as set_now reads it
-- ARGV 2  4 bytes for each request: the number of its stack, counted from 1; its cost in two
--         bytes; and flags, 1 to charge nothing plus 2 for detail and 8 if what is charged
--         nothing is no peek
-- ARGV 3+ the stacks, as read_stack parses them
-- return  one string, or an array of the parts of one. First the time of all decisions in 8 bytes,
--         then for each request one of these bytes and what follows it:
--         0  allowed
--         1  refused: the index of the rule in 1 byte, its wait in 4, and in 4 for how long
--            the refusal stays valid if nothing is pushed, 0 for a peek
--         2  the key of the log or of its ids holds something else
--         5  refused, in the longer form that stint_reserve describes
--         6  the user lacks the right to a command
--         7  another primary of the Cluster has the log; nothing was done
--         If detail was requested and the log could be read, the states follow, or the log,
--         see WRITTEN. Numbers are big-endian. A wait of 2^32 - 1 in 4 bytes never ends. A
--         call after its deadline does nothing and returns only the time.
local function decide_many(keys, args)
  if set_now(args[1]) then return pack('>I8', now) end
  return answer_each(decide_rest, keys, args, { pack('>I8', now) })
end

redis.register_function('stint_decide_' .. suffix, decide_many)

-- stint_across is stint_decide for logs of several slots of one primary of a Cluster.
-- ARGV    those of stint_decide, then the log of each request: Redis accepts keys only if they
--         are of one slot
local function decide_across(_, args)
  local logs, requests = {}, #args[2] / 4
  for i = 1, requests do logs[i] = args[#args - requests + i] end
  return decide_many(logs, args)
end

redis.register_function{ function_name = 'stint_across_' .. suffix, callback = decide_across, flags = { 'allow-cross-slot-keys' } }
