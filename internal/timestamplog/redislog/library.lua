-- The function library by which Redis decides. It is loaded behind a head that
-- names the library and sets suffix, of the names of its functions, the hash of
-- the text, and the bounds of timestamplog: MAX_WAIT and ID_LIFETIME in
-- milliseconds, and MAX_RESERVED. Behind it come ids.lua, reservations.lua and the others.
--
-- A log is a string, so that one command reads what a decision needs and one
-- writes what it changes: what a decision costs is mostly the passage from Lua
-- to a command and back.
--
--   head     28 bytes, see HEAD
--   recent   the newest entries, the newest first; room for SLOTS of them where
--            there are blocks, and else for some more than there are
--   blocks   a ring of blocks of BLOCK older entries each, the newest first in
--            each; the oldest block may hold fewer that still count
--
-- A push rewrites the head and the recent entries in place. When SLOTS are
-- full, the older of them become the ring's next block. Only growing, and shrinking where a
-- quarter of a large ring would do, write the whole string, for Redis would double it, and for
-- a log as long as it may get there is just the room it needs.
--
-- An entry is a stamp, the low 32 bits of a millisecond count that starts
-- anywhere; only differences mean something. The head has the newest entry's
-- time, so every other time follows from how far its stamp lies behind the
-- newest's, and moving the whole log is writing the head. Every push drops what
-- is as old as the window, at most 31 days, so the 49 days that 32 bits
-- distinguish always suffice.
--
-- Entries that were made for reservations ahead lie on top; the head says how many of
-- the newest these are, until a request that does not wait comes after them.

local RANGE = 4294967296
local NEVER = RANGE - 1

-- magic, how many entries are recent, the newest entry's time (its high 16 bits
-- and the low 32), the milliseconds after which the log expires, how much later
-- Redis drops it, the stamp of an entry as old as the oldest or older, the place
-- of the newest block in the ring, how many blocks it has room for, and how many
-- entries lie there. Under the magic RESERVED Redis drops it no later, and the
-- number says how many of the newest entries were made for reservations.
local HEAD, HEAD_SIZE, MAGIC, RESERVED = '>I1I1I2I4I4I4I4I2I2I4', 28, 83, 84
local SLOTS, BLOCK = 64, 32
local RING = HEAD_SIZE + 4 * SLOTS  -- where the ring begins
local FIRST_READ = '283'            -- RING - 1
local WHOLE = 4096                  -- the entries up to which a log is read whole to be counted
local SMALL = 16                    -- the blocks that a ring may have room for however few it holds

-- Redis 7.0 knows no libraries while it loads functions, only when it calls one.
-- Commands are given their numbers as texts where it matters, since Redis
-- writes a Lua number with 17 digits first.
local call, try, floor, min, max, format, byte, sub, rep, pack, unpack_at, concat

local function know_libraries()
  call, try = redis.call, redis.pcall
  floor, min, max = math.floor, math.min, math.max
  format, byte, sub, rep, concat = string.format, string.byte, string.sub, string.rep, table.concat
  pack, unpack_at = struct.pack, struct.unpack
end

local now = 0  -- the present time in Unix milliseconds

-- set_now sets it as the first argument of a function says: by Redis's own clock
-- where that is empty, or '<' and the call's deadline; it then
-- returns whether the deadline is over. Else the argument is the time itself, which is for tests.
local function set_now(written)
  if not call then know_libraries() end
  local first = byte(written)
  if first and first ~= 60 then
    now = tonumber(written)
    return false
  end
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
  return first and now >= tonumber(sub(written, 2))
end

-- Stacks that were read before, by their text. A stack in use is soon read
-- again, so forgetting all of them now and then bounds the memory.
local stacks, stack_count = {}, 0
local MAX_STACKS = 4096

-- use_algorithm has a stack count by another algorithm; see reservations.lua.
local use_algorithm

-- read_stack reads "keep window limit window limit window ...": what a log
-- keeps, in entries and milliseconds, and the rules in their order. For
-- another algorithm than the timestamp log, what use_algorithm reads precedes them.
local function read_stack(written)
  local stack = stacks[written]
  if stack then return stack end
  local numbers, algorithm, kept = {}, written:match('^(%a%S*) (.*)$')
  for number in (kept or written):gmatch('%d+') do numbers[#numbers + 1] = tonumber(number) end
  stack = { keep = numbers[1], window = numbers[2], rules = {}, by_limit = {} }
  for i = 3, #numbers, 2 do
    local rule = { limit = numbers[i], window = numbers[i + 1], index = #stack.rules }
    stack.rules[#stack.rules + 1] = rule
    stack.by_limit[#stack.by_limit + 1] = rule
  end
  -- Redis drops a log somewhat later than it expires, so that not every push has to
  -- set its expiry.
  stack.margin = max(floor(stack.window / 8), 1000)
  -- By limit, so that the first index that is missing ends the search.
  table.sort(stack.by_limit, function(a, b)
    if a.limit ~= b.limit then return a.limit < b.limit end
    return a.index < b.index
  end)
  if algorithm then use_algorithm(stack, algorithm) end
  if stack_count >= MAX_STACKS then stacks, stack_count = {}, 0 end
  stacks[written], stack_count = stack, stack_count + 1
  return stack
end

-- The log at hand. It is empty where count is 0, and its other fields then mean
-- nothing.
local key           -- its name
local text          -- its string from the beginning, or as much of it as was read
local count         -- its entries
local recent, old   -- how many of them are recent, and how many lie in blocks
local top, room     -- the place of the newest block, and how many there may be
local newest, newest_age, newest_stamp  -- age is 0 if the log must be shifted
local window, slack, oldest             -- as HEAD says
local reserved      -- how many of the newest entries were made for reservations
local ordinary      -- it lies not ahead, and none were

-- open reads the log of a name. It returns false where there is something else.
local function open(name)
  key, text, count, recent, old, top, room = name, try('GETRANGE', name, '0', FIRST_READ), 0, 0, 0, 0, 0
  reserved, ordinary = 0, true
  if text == '' then return true end
  if type(text) == 'table' or #text < HEAD_SIZE + 4 then return false end
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

-- place returns where the i-th newest entry lies in the string, of those that
-- are not recent.
local function place(i)
  local behind = i - recent - 1
  local within = behind % BLOCK
  return RING + 4 * (BLOCK * ((top - (behind - within) / BLOCK) % room) + within)
end

local function stamp(i)
  if i <= recent then return (unpack_at('>I4', text, HEAD_SIZE - 3 + 4 * i)) end
  local at = place(i)
  if at < #text then return (unpack_at('>I4', text, at + 1)) end
  return (unpack_at('>I4', call('GETRANGE', key, at, at + 3)))
end

-- age returns how many milliseconds old the i-th newest entry is, at the newest
-- where that lies ahead.
local function age(i)
  if i == 1 then return newest_age end
  return newest_age + (newest_stamp - stamp(i)) % RANGE
end

-- read_whole reads what the first reading of a long log left out, where more
-- than a few of its entries will be asked for, and its ring is not much larger than they are.
local function read_whole(most)
  if old > 0 and old <= most and BLOCK * room <= 2 * most then text = call('GETRANGE', key, '0', '-1') end
end

-- entries returns the stamps of the n newest entries, as they are written.
local function entries(n)
  if n <= recent then return sub(text, HEAD_SIZE + 1, HEAD_SIZE + 4 * n) end
  read_whole(RANGE)
  local parts, left = { sub(text, HEAD_SIZE + 1, HEAD_SIZE + 4 * recent) }, n - recent
  for i = recent + 1, n, BLOCK do
    local at = place(i)
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

-- last notes that the newest entry is at that instant, now or a reservation ahead, and
-- the log expires as stack says. It returns whether the expiry in Redis must be
-- set.
local function last(stack, at)
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

-- shift_log moves the log at hand so that its newest entry is at that instant.
local function shift_log(stack, at)
  local must_expire = last(stack, at)
  call('SETRANGE', key, '0', head())
  if must_expire then call('PEXPIREAT', key, drops_at()) end
end

-- younger narrows the range in which the window ends: the low-th newest entry
-- is younger than it and the high-th is not. Requests come at some rate, so it
-- guesses by proportion, and halves where that does not help. It returns how
-- many are younger, the age of the last of these, and that of the next.
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

-- drop forgets the entries that are as old as span, and all but the newest
-- most.
local function drop(span, most)
  local keep = min(count, most)
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

-- lay_out rewrites the log at hand with the stamps given and room for some more.
local function lay_out(stack, stamps)
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

-- enter writes cost entries at an instant that is not before the newest.
local function enter(stack, cost, at)
  local its_stamp = at % RANGE
  if count > 0 then its_stamp = (newest_stamp + at - newest) % RANGE end
  if count == 0 then oldest = its_stamp end
  local fresh = pack('>I4', its_stamp)
  if cost > 1 then fresh = rep(fresh, cost) end
  -- A log that grows is written whole, and so is one whose ring has become much too large.
  local fits, reservations = false, false
  if room <= SMALL or 4 * old >= BLOCK * room then
    fits = room == 0 and HEAD_SIZE + 4 * (recent + cost) <= #text or room > 0 and recent + cost <= SLOTS
    reservations = room > 0 and not fits and recent + cost <= SLOTS + BLOCK and old <= BLOCK * (room - 1)
  end
  if not fits and not reservations then
    local stamps = fresh .. (count > 0 and entries(count) or '')
    last(stack, at)
    slack = reserved > 0 and 0 or stack.margin
    newest_stamp = its_stamp
    return lay_out(stack, stamps)
  end
  local stamps = sub(text, HEAD_SIZE + 1, HEAD_SIZE + 4 * recent)
  recent, count = recent + cost, count + cost
  if reservations then
    recent, old, top = recent - BLOCK, old + BLOCK, (top + 1) % room
    stamps = fresh .. stamps
    call('SETRANGE', key, RING + 4 * BLOCK * top, sub(stamps, 4 * recent + 1))
    fresh, stamps = '', sub(stamps, 1, 4 * recent)
  end
  local must_expire = last(stack, at)
  newest_stamp = its_stamp
  text = head() .. fresh .. stamps
  call('SETRANGE', key, '0', text)
  if must_expire then call('PEXPIREAT', key, drops_at()) end
end

-- push logs cost entries at now, where nothing lies ahead, and drops what the
-- stack does not keep.
local function push(stack, cost)
  if count > 0 then drop(stack.window, stack.keep - cost) end
  reserved = 0
  enter(stack, cost, now)
end

-- states writes what each rule has left: for each its remaining and its wait,
-- 4 bytes each; then, in 4 bytes, how long that holds, but for the waits running
-- down, while nothing is pushed: until the first entry leaves a window, and no
-- longer than holds; then, in 8 bytes, the time of the newest entry, 0 for none. As windows grow from rule to rule, what one rule found out
-- spares the next a search. lift is how far the newest entry lies ahead of now.
local function states(stack, cost, holds, lift)
  read_whole(WHOLE)
  local written, rules = {}, stack.rules
  -- The low-th newest is younger than the window; next_age, where known, is of
  -- the one after it.
  local low, low_age, next_age = 1, newest_age, nil
  for i = 1, #rules do
    local limit, span, used = rules[i].limit, rules[i].window, 0
    if count > 0 and newest_age < span then
      if next_age and next_age < span then low, low_age, next_age = low + 1, next_age, nil end
      -- What lies beyond the limit does not change what remains.
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

local PEEK, DETAIL = 1, 2
local ALLOWED, REFUSED, FOREIGN, REPEATED = '\0', '\1', '\2', '\3'

-- WRITTEN precedes states. The log itself, which begins with MAGIC, is sent in their place
-- where no more than SENT of its entries lie in blocks, of a ring that is not much larger: the node then works out what each rule
-- has left, which costs Redis about as much again as the decision.
local WRITTEN, SENT = '\0', 256

-- sent returns the log at hand as it is stored, nil where its states are to be written.
local function sent()
  if count == 0 or old > SENT or BLOCK * room > 2 * SENT then return nil end
  if old > 0 then
    local whole = call('GETRANGE', key, '0', '-1')
    if #whole < RING + 4 * BLOCK * room then error('the ring has been cut') end
    return whole
  end
  return sub(text, 1, HEAD_SIZE + 4 * recent)
end

-- longest_wait returns how long a cost has to wait for the rule that makes it
-- wait longest, and that rule; least where none does more. The log has that many
-- entries, and age_at(i, view) returns their ages.
local function longest_wait(stack, cost, least, entry_count, age_at, view)
  local rules, longest, by = stack.by_limit, least, nil
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

-- decide_rare answers what is rare; see reservations.lua.
local decide_rare

-- known_reservation and add_id look up ids and remember them; see ids.lua.
local known_reservation, add_id

-- decide answers one request; see decide_many for what it returns, and
-- reserve_many for one with an id, whose set of ids then has that name.
local function decide(name, stack, cost, flags, id, ids)
  if #stack.rules == 0 then return ALLOWED end
  if stack.engine or not open(name) or not ordinary then return decide_rare(name, stack, cost, flags, id, ids) end
  local peek, detail = flags % 2 == PEEK, flags >= DETAIL
  local known, expires, _
  if id and not peek then known, _, expires = known_reservation(ids, id) end
  local longest, by = longest_wait(stack, cost, 0, count, age)
  local answer, ttl = ALLOWED, NEVER
  if known then
    answer = REPEATED .. pack('>I8', known)
  elseif by then
    -- A stack with a shorter window may have left a log that goes before.
    if not peek and count > 0 then ttl = newest + window - now end
    answer = REFUSED .. pack('>BI4I4', by.index, longest, peek and 0 or min(longest, ttl))
  elseif not peek then
    push(stack, cost)
    if id then add_id(ids, id, now, cost, expires) end
  end
  if not detail then return answer end
  return answer .. (sent() or WRITTEN .. states(stack, cost, ttl, 0))
end

-- is_spoilt reports whether an error, by its text, comes from what a key holds: one of
-- Lua, which could not calculate with it, or of a command that found another kind of
-- value or got a number that means nothing. All others that Redis returns, which begin
-- with a code as OOM, concern the whole server.
local function is_spoilt(its)
  if not its:find('^%u+ ') then return true end
  return its:find('^WRONGTYPE') or its:find('^ERR value is not') or its:find('not a float', 1, true) or its:find('^ERR invalid expire')
end

-- try_call calls f as pcall does, and returns false only for an error that comes from what a
-- key holds; it raises any other again.
local function try_call(f, ...)
  local done, err = pcall(f, ...)
  if done then return true end
  if type(err) ~= 'table' then err = { err = tostring(err) } end  -- as Redis 7.0 raises it
  if not is_spoilt(err.err or '') then error(err, 0) end
  return false
end

-- The request of the call at hand that is being answered, counted from 1.
local asked

-- answer_each has rest answer the requests after the asked-th, which it counts on, until all
-- are answered. If one fails by what its key holds, its answer is FOREIGN, and the others
-- get theirs. It creates no function, which would cost a call of one request a tenth.
local function answer_each(rest, keys, args, answers)
  asked = 0
  while true do
    if try_call(rest, keys, args, answers) then return concat(answers) end
    answers[asked + 1] = FOREIGN
  end
end

local function decide_rest(keys, args, answers)
  local requests = args[2]
  for i = asked + 1, #keys do
    asked = i
    local stack, cost_high, cost_low, flags = byte(requests, 4 * i - 3, 4 * i)
    answers[i + 1] = decide(keys[i], read_stack(args[2 + stack]), 256 * cost_high + cost_low, flags)
  end
end

-- stint_decide answers requests, each in its reservation as if it came alone.
-- KEYS    the log of each request
-- ARGV 1  as set_now reads it: until when the call may be carried out, in
--         milliseconds
-- ARGV 2  each request in 4 bytes: which stack, counted from 1; its cost in
--         two bytes, the higher first; 1 for a peek plus 2 for detail
-- ARGV 3+ the stacks, as read_stack reads them
-- return  one string: the time of all decisions in 8 bytes, then for each
--         request 0 for allowed, or 1 for refused, the index of the rule in 1
--         byte, its wait in 4 and how long the refusal ttl if nothing is
--         pushed in 4 (0 for a peek), or 2 where the key, or that of its ids, holds something else,
--         or 5 as stint_reserve says; then, where detail was asked and the log could
--         be read, 0 and the states, or the log, as WRITTEN says. Numbers are big-endian;
--         a wait of 2^32 - 1 in 4 bytes never ends. A call that comes too late has done
--         nothing, and returns the time only.
local function decide_many(keys, args)
  if set_now(args[1]) then return pack('>I8', now) end
  return answer_each(decide_rest, keys, args, { pack('>I8', now) })
end

redis.register_function('stint_decide_' .. suffix, decide_many)
