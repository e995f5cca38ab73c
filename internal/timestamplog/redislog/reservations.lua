-- Everything that is rarer than a plain request: requests with a max_wait, with an id, or
-- about several logs at once; logs with reservations in the future, or whose clock has
-- stepped back; and all algorithms other than the timestamp log.
--
-- A view is one request and what its log means for it:
--   name, stack, cost, peek, detail, always, uncharged, id, ids, value, max_wait, hold, source
--            the request; id, value, hold and source are nil for none
--   engine   the table of functions that read and write its log
--   foreign  whether the key holds something else
--   shift    by how much the log must be shifted because the clock stepped back
--   lift     how far the newest reservation is in the future after that
--   known    the reservation of an earlier request with the same id that was charged
--   known_cost  its cost
--   expires  the third result of known_reservation
--   wait     how long from now until the reservation of the request, or FOREVER
--   retry    0 if it is allowed, otherwise how long until it will be, or FOREVER
--   by       the rule with the longest wait, nil if only reservations make it wait
--   own      the wait that this rule alone demands, 0 under a counter
--   full     whether the log has as many open holds as one may have
--
-- An engine has
--   look(v)             sets foreign, shift and lift; only reads
--   move(v)             shifts the log back by shift
--   judge(v, max_wait)  sets wait, retry, by and own; brings a counter up to date
--   charge(v, at)       logs the request at the time of its reservation or later
--   room(v)             returns the largest cost that every rule allows, 0 while there are
--                       reservations in the future
--   ttl(v)              returns how long from now until the log expires
--   states(v, holds)    returns the states in the form of states in library.lua
--   cancel(v, at, cost, id)  removes a reservation from a log after look; returns whether it
--                       was there. One that is not in the future was made in a log that keeps
--                       entries or amounts

-- FOREVER is a wait without end in this file, since a counter may demand waits longer than
-- NEVER.
local FOREVER = 9007199254740992

-- min_wait is the min_wait of longest_wait for a view: if a rule demands the same wait as the
-- reservations, the rule is named.
local function min_wait(v) return v.lift > 0 and -1 or 0 end

-- set_waits sets wait, retry, by and own of a view. longest and by are the results of
-- longest_wait, counted from the newest reservation. free is how long the reservations leave
-- no room for another one.
local function set_waits(v, max_wait, longest, by, free)
  v.by, v.own = by, 0
  if longest == NEVER then
    v.wait, v.retry = FOREVER, FOREVER
    return
  end
  v.wait = v.lift + max(0, longest)
  if by then v.own = v.wait end
  v.retry = max(0, v.wait - max_wait)
  if max_wait > 0 and v.wait > 0 and free > v.retry then v.by, v.own, v.retry = nil, 0, free end
end

-- fullness returns the index of the entry, counted from the newest, that must not be in the
-- future if there is to be room for a reservation with this cost.
local function fullness(cost) return max(1, MAX_RESERVED - cost + 1) end

-- clock_skew returns by how much a log must be shifted whose newest entry is in the future,
-- by ahead. reservations is whether that entry belongs to a reservation. ordinary is how far
-- the newest entry that does not is in the future, nil if there is none.
local function clock_skew(ahead, reservations, ordinary)
  return max(0, reservations and ahead - MAX_WAIT or 0, ordinary or 0)
end

local timestamps = {}  -- the engine of the timestamp log

function timestamps.look(v)
  v.shift, v.lift = 0, 0
  v.foreign = not open(v.name)
  local ahead = not v.foreign and count > 0 and newest - now or 0
  if ahead <= 0 then return end
  v.shift = clock_skew(ahead, reserved > 0, reserved < count and ahead - age(reserved + 1))
  v.lift = ahead - v.shift
end

-- select_log makes the log of a view the current one.
local function select_log(v)
  if key ~= v.name then open(v.name) end
end

function timestamps.move(v)
  shift_log(v.stack, newest - v.shift)
  shift_ids(v.name, v.shift)
  v.shift = 0
end

function timestamps.judge(v, max_wait)
  local longest, by = longest_wait(v.stack, v.cost, min_wait(v), count, age)
  local full = fullness(v.cost)
  set_waits(v, max_wait, longest, by, count >= full and v.lift - age(full) or 0)
end

-- reserve logs cost entries for a reservation in the future. The newest entry is in the
-- future by lift. Entries in the future stay; of the others, those are dropped that would be
-- if there were no reservations.
local function reserve(stack, cost, at, lift)
  if count > 0 then
    local ahead = 0
    if lift > 0 then
      local oldest_age = age(count)
      ahead = oldest_age < lift and count or younger(lift, 1, 0, count, oldest_age)
    end
    drop(stack.window + lift, stack.keep + ahead)
  end
  reserved = min(reserved, count) + cost
  append(stack, cost, at)
end

function timestamps.charge(v, at)
  select_log(v)
  if at > now then reserve(v.stack, v.cost, at, v.lift) else push(v.stack, v.cost) end
  v.lift = at - now
end

function timestamps.room(v)
  if v.lift > 0 then return 0 end
  select_log(v)
  local room, rules = RANGE, v.stack.rules
  for i = 1, #rules do
    local limit, span = rules[i].limit, rules[i].window
    local used, max_used = 0, min(limit, count)
    if max_used > 0 and newest_age < span then
      local its_age = age(max_used)
      used = its_age < span and max_used or younger(span, 1, newest_age, max_used, its_age)
    end
    room = min(room, limit - used)
  end
  return room
end

function timestamps.ttl(v)
  select_log(v)
  return count > 0 and newest + window - now or FOREVER
end

function timestamps.states(v, holds)
  select_log(v)
  return states(v.stack, v.cost, holds, v.lift)
end

function timestamps.cancel(v, at, cost)
  if count == 0 or newest < at then return false end
  local its_age, from = newest_age + newest - at, 0  -- from entries are newer
  local oldest_age = age(count)
  if oldest_age < its_age then return false end
  if at < newest then from = younger(its_age, 1, newest_age, count, oldest_age) end
  local to = from
  while to < count and to - from < cost and age(to + 1) == its_age do to = to + 1 end
  if to == from then return false end
  if to == count and from == 0 then
    call('UNLINK', v.name)
    return true
  end
  local stamps = entries(count)
  if from == 0 then newest, newest_stamp = newest + newest_age - age(to + 1), stamp(to + 1) end
  reserved = reserved - (min(reserved, to) - min(reserved, from))
  rewrite({ keep = count }, sub(stamps, 1, 4 * from) .. sub(stamps, 4 * to + 1))
  return true
end

-- load_and_judge reads the log of a view, shifts it if it must be shifted, and sets the other
-- fields of the view.
local function load_and_judge(v, max_wait)
  if #v.stack.rules == 0 then
    v.wait, v.retry = 0, 0
    return
  end
  v.engine.look(v)
  if v.foreign then return end
  if v.shift > 0 and not v.peek then v.engine.move(v) end
  v.engine.judge(v, max_wait)
  if v.id and not v.peek then
    v.known, v.known_cost, v.expires = known_reservation(v.ids, v.id)
  end
  if v.known then v.wait, v.retry = 0, 0 end
end

local function charge(v, at)
  if #v.stack.rules == 0 then return end
  v.engine.charge(v, at)
  if v.id then
    add_id(v.ids, v.id, at, v.cost, v.expires)
    -- One that was cancelled and is made again for the same time with the same cost may be cancelled again.
    if at > now then call('UNLINK', cancelled_name(v.name, at, v.cost, v.id)) end
  end
end

-- charge_refused charges a refused request: up to all that is kept if the stack counts
-- refused requests, otherwise as much as fits. It returns whether it charged anything.
local function charge_refused(v)
  local cost = v.cost
  v.cost = min(cost, v.stack.count_refused and v.stack.keep or v.engine.room(v))
  local charged = v.cost > 0
  if charged then v.engine.charge(v, now) end
  v.cost = cost
  return charged
end

local RESERVED_FOR, WAITS, TOO_MANY_HOLDS = '\4', '\5', 128

-- reply returns the answer to a view. at is its reservation if it is allowed. stays is whether
-- a refusal is valid until the request may be tried again.
local function reply(v, at, stays)
  if v.foreign then return FOREIGN end
  local answer, ttl = ALLOWED, FOREVER
  if v.known then
    answer = REPEATED .. pack('>I8I4', v.known, v.known_cost)
  elseif v.retry > 0 then
    local by = v.by or v.stack.rules[#v.stack.rules]
    local index = v.full and by.index + TOO_MANY_HOLDS or by.index
    ttl = stays and not v.peek and max(0, v.engine.ttl(v)) or 0
    answer = WAITS .. pack('>BI8I8I8', index, v.retry, v.own, min(v.retry, ttl))
  elseif at > now then
    answer = RESERVED_FOR .. pack('>I8', at)
  end
  if not v.detail or #v.stack.rules == 0 then return answer end
  return answer .. WRITTEN .. v.engine.states(v, v.lift > 0 and 0 or min(ttl, NEVER))
end

-- decide_alone decides the request of a view by itself.
local function decide_alone(v, max_wait)
  load_and_judge(v, max_wait)
  if v.foreign or v.known then return reply(v) end
  local at, counts_refused = now + v.wait, v.always or v.stack.count_refused
  if v.peek or v.uncharged then
    return reply(v, at, not counts_refused)
  elseif v.retry == 0 then
    charge(v, at)
  elseif counts_refused and charge_refused(v) then
    v.engine.judge(v, 0)
  end
  return reply(v, at, not counts_refused)
end

local VALUE, HOLD = 16, 32  -- flags that only stint_reserve has, as ALWAYS

local function view_of(name, stack, cost, flags, id, ids, value, max_wait, hold, source)
  return {
    name = name, stack = stack, cost = cost, peek = flags % 2 == PEEK and flags < UNCHARGED, detail = flags % ALWAYS >= DETAIL,
    always = flags % UNCHARGED >= ALWAYS, uncharged = flags >= UNCHARGED, id = id, ids = ids, value = value, max_wait = max_wait, hold = hold, source = source, engine = stack.engine or timestamps,
  }
end

decide_rare = function(name, stack, cost, flags, id, ids)
  return decide_alone(view_of(name, stack, cost, flags, id, ids), 0)
end

-- decide_all decides the requests of views as one: all are allowed or none.
local function decide_all(views, answers)
  local max_wait, peek = MAX_WAIT, false
  for i = 1, #views do max_wait, peek = min(max_wait, views[i].max_wait), peek or views[i].peek end
  local at, allowed = now, true
  for i = 1, #views do
    local v = views[i]
    v.peek = peek
    load_and_judge(v, max_wait)
    if v.foreign then
      for j = 1, #views do answers[j + 1] = FOREIGN end
      return
    end
    if v.retry > 0 then allowed = false else at = max(at, v.known or now + v.wait) end
  end
  for i = 1, #views do
    local v = views[i]
    if not peek and not v.known and not v.uncharged then
      if allowed then
        charge(v, at)
      elseif v.always and #v.stack.rules > 0 then
        if v.retry == 0 then
          v.engine.charge(v, now)
        elseif charge_refused(v) then
          v.engine.judge(v, 0)
        end
      end
    end
    answers[i + 1] = reply(v, allowed and at or now + v.wait)
  end
end

-- The position of the next request of the call in ARGV 3, and of the key of its log in KEYS.
local next_byte, next_key

-- next_request parses the next request.
local function next_request(keys, args)
  local which, cost, flags, max_wait, id, at = unpack_at('>I1I8I1I4I1c0', args[3], next_byte)
  local name, ids, value, hold, source = keys[next_key], nil, nil, nil, nil
  local holds = flags >= HOLD
  if holds then flags = flags - HOLD end
  if flags >= VALUE then flags, value, at = flags - VALUE, sub(args[3], at, at + 15), at + 16 end
  if holds then hold, source, at = unpack_at('>I4I1c0', args[3], at) end
  next_key, next_byte = next_key + 1, at
  if id ~= '' then ids, next_key = keys[next_key], next_key + 1 else id = nil end
  return name, read_stack(args[3 + which]), cost, flags, id, ids, value, max_wait, hold, source
end

local function reserve_rest(keys, args, answers)
  while next_byte <= #args[3] do
    asked = asked + 1
    local name, stack, cost, flags, id, ids, value, max_wait, hold, source = next_request(keys, args)
    if max_wait == 0 and flags % UNCHARGED < ALWAYS and not value then
      answers[2 * asked], answers[2 * asked + 1] = decide(name, stack, cost, flags, id, ids)
    else
      answers[2 * asked], answers[2 * asked + 1] = '', decide_alone(view_of(name, stack, cost, flags, id, ids, value, max_wait, hold, source), max_wait)
    end
  end
end

-- stint_reserve decides requests with everything that a request can have.
-- KEYS    the log of each request, followed by that of its ids (see ids_of) if it has an id
-- ARGV 1  as in stint_decide
-- ARGV 2  'together' if all are to be allowed or none; otherwise each is decided by itself
-- ARGV 3  for each request 15 bytes, its id and its value: the number of its stack, counted
--         from 1; its cost in 8 bytes; its flags, as in stint_decide plus 4 to charge it even
--         if it is refused, 16 if it has a value and 32 if it holds its cost; its max_wait in
--         4 bytes; the length of its id, 0 for none; the id; the hash of its value in 16
--         hexadecimal digits; and for how long it holds in 4 bytes, the length of its source and the source
-- ARGV 4+ the stacks, as read_stack parses them
-- return  as stint_decide, and in addition these answers:
--         3  allowed and charged before: the reservation in 8 bytes and its cost in 4
--         4  allowed later: the reservation in 8 bytes
--         5  refused: the index of the rule in 1 byte, plus 128 if there are too many holds; the wait in 8; in 8 the wait that this
--            rule alone demands, 0 if it is that of reservations or of a counter; and in 8
--            for how long the refusal stays valid, 0 if that is not known. A wait of 2^53 in
--            8 bytes never ends.
--         The states of a counter have 8 bytes for what remains and for each wait, followed by 8 for the time
--         until the rule is fully restored, and no newest entry.
local function reserve_many(keys, args)
  if set_now(args[1]) then return pack('>I8', now) end
  local answers = { pack('>I8', now) }
  next_key, next_byte = 1, 1
  if args[2] ~= 'together' then return answer_each(reserve_rest, keys, args, answers) end
  local views = {}
  while next_byte <= #args[3] do
    views[#views + 1] = view_of(next_request(keys, args))
  end
  local failed = try_call(decide_all, views, answers)
  for i = 1, failed and #views or 0 do answers[i + 1] = failed end
  return concat(answers)
end

local engines = { timestamps }  -- all engines with reservations

-- stint_cancel cancels a reservation.
-- KEYS 1  the log
-- KEYS 2  its ids
-- KEYS 3  exists while it is known that the reservation was cancelled
-- ARGV 1  as in stint_decide
-- ARGV 2  the time of the reservation
-- ARGV 3  its cost
-- ARGV 4  the id of its request
-- ARGV 5  for how long after its time it may be cancelled, 0 if only before
-- return  1 if that freed room, otherwise 0
local function cancel(keys, args)
  set_now(args[1])
  local at, cost, id, counts = tonumber(args[2]), tonumber(args[3]), args[4], tonumber(args[5])
  local known, its_cost = known_reservation(keys[2], id)
  if at > now then
    if known ~= at or its_cost ~= cost then return 0 end
  elseif now >= at + counts or call('GET', keys[3]) then
    return 0
  end
  for i = 1, #engines do
    local v = { name = keys[1] }
    engines[i].look(v)
    if not v.foreign then
      -- If the log must be shifted, the times of its reservations change.
      if v.shift > 0 or not engines[i].cancel(v, at, cost, id) then return 0 end
      if known == at then call('ZREM', keys[2], id) end
      if counts > 0 then call('SET', keys[3], '', 'PXAT', number(at + counts)) end
      return 1
    end
  end
  return 0
end

redis.register_function('stint_reserve_' .. suffix, reserve_many)
redis.register_function('stint_cancel_' .. suffix, cancel)
