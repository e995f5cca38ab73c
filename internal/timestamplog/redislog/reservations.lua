-- What is asked less often than whether a request may be done now: requests that
-- wait for their reservation, that name themselves, or that ask about several logs at
-- once; logs in which reservations lie ahead or whose clock has stepped back; and
-- everything under another algorithm than the timestamp log.
--
-- A view is one request and what its log says to it:
--   name, stack, cost, peek, detail, always, uncharged, id, ids, value  as asked; id and
--            value are nil for none
--   engine   the table of functions by which its log is read and written
--   foreign  the name holds something else
--   shift    by how much the log must be shifted because the clock stepped back
--   lift     how far the newest reservation lies ahead of now, once it was moved
--   known    the reservation of a request of that id that was charged before
--   expires     as known_reservation returned it
--   wait     how long from now until the reservation of the request; FOREVER
--   retry    0 where it is allowed, and else how long until it will be; FOREVER
--   by       the rule that makes it wait longest, nil for reservations ahead alone
--   own      how long by itself has it wait, 0 under a counter
--
-- An engine has
--   look(v)             fills in foreign, shift and lift; reads only
--   move(v)             moves the log back by shift
--   judge(v, max_wait)  fills in wait, retry, by and own; a counter is moved by it
--   charge(v, at)       enters the request at an instant that is its reservation or later
--   room(v)             returns how much cost every rule has left, 0 while reservations
--                       lie ahead
--   ttl(v)            returns how long the log ttl from now
--   states(v, holds)    returns the states, as library.lua's states
--   cancel(v, at, cost, id)  drops a reservation ahead of now from a log just looked
--                       at; returns whether it was there

-- FOREVER is a wait without end here, where a counter may have a request wait for
-- longer than NEVER.
local FOREVER = 9007199254740992

-- least_wait is for longest_wait: a rule that waits just as long as the reservations
-- ahead is named before them.
local function least_wait(v) return v.lift > 0 and -1 or 0 end

-- weigh fills in a verdict on a request to a log, where a rule has it wait that
-- long from the newest reservation on. free is how long the reservations ahead leave no room
-- for another.
local function weigh(v, max_wait, longest, by, free)
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

-- fullness returns which entry, counted from the newest, must not lie ahead of
-- now for a reservation of that cost to have room.
local function fullness(cost) return max(1, MAX_RESERVED - cost + 1) end

-- clock_skew returns by how much a log must be shifted whose newest entry lies
-- ahead of now. reservations says whether that was made for a reservation, and ordinary
-- how far the newest entry that was not lies ahead, nil where there is none.
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

-- select_log makes the log of a view the one at hand.
local function select_log(v)
  if key ~= v.name then open(v.name) end
end

function timestamps.move(v)
  shift_log(v.stack, newest - v.shift)
  shift_ids(v.name, v.shift)
  v.shift = 0
end

function timestamps.judge(v, max_wait)
  local longest, by = longest_wait(v.stack, v.cost, least_wait(v), count, age)
  local full = fullness(v.cost)
  weigh(v, max_wait, longest, by, count >= full and v.lift - age(full) or 0)
end

-- reserve enters cost entries for a reservation ahead of now, where the newest entry
-- lies lift ahead. What lies ahead stays, and what does not is dropped as if it
-- alone were there.
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
  enter(stack, cost, at)
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
    local used, most = 0, min(limit, count)
    if most > 0 and newest_age < span then
      local its_age = age(most)
      used = its_age < span and most or younger(span, 1, newest_age, most, its_age)
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
  if reserved == 0 or newest < at then return false end
  local most, behind, from = min(reserved, count), newest - at, 0  -- from entries are newer
  local oldest_age = age(most)
  if oldest_age < behind then return false end
  if behind > 0 then from = younger(behind, 1, 0, most, oldest_age) end
  local to = from
  while to < most and to - from < cost and age(to + 1) == behind do to = to + 1 end
  if to == from then return false end
  if to == count and from == 0 then
    call('UNLINK', v.name)
    return true
  end
  local stamps = entries(count)
  if from == 0 then newest, newest_stamp = newest - age(to + 1), stamp(to + 1) end
  reserved = max(0, reserved - (to - from))
  lay_out({ keep = count }, sub(stamps, 1, 4 * from) .. sub(stamps, 4 * to + 1))
  return true
end

-- load_and_judge moves the log of a view where it must be, and fills in what it says.
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
    local reservation, _, expires = known_reservation(v.ids, v.id)
    v.known, v.expires = reservation, expires
  end
  if v.known then v.wait, v.retry = 0, 0 end
end

local function charge(v, at)
  if #v.stack.rules == 0 then return end
  v.engine.charge(v, at)
  if v.id then add_id(v.ids, v.id, at, v.cost, v.expires) end
end

-- charge_refused charges what a refused request leaves behind: all that is kept where
-- the stack counts refused requests, else what fits. It returns whether it did.
local function charge_refused(v)
  local cost = v.cost
  v.cost = min(cost, v.stack.count_refused and v.stack.keep or v.engine.room(v))
  local charged = v.cost > 0
  if charged then v.engine.charge(v, now) end
  v.cost = cost
  return charged
end

local RESERVED_FOR, WAITS = '\4', '\5'

-- reply writes the answer to a view whose reservation, where it is allowed, is at. held
-- reports whether a refusal is final until it may be tried again.
local function reply(v, at, held)
  if v.foreign then return FOREIGN end
  local answer, ttl = ALLOWED, FOREVER
  if v.known then
    answer = REPEATED .. pack('>I8', v.known)
  elseif v.retry > 0 then
    local by = v.by or v.stack.rules[#v.stack.rules]
    ttl = held and not v.peek and max(0, v.engine.ttl(v)) or 0
    answer = WAITS .. pack('>BI8I8I8', by.index, v.retry, v.own, min(v.retry, ttl))
  elseif at > now then
    answer = RESERVED_FOR .. pack('>I8', at)
  end
  if not v.detail or #v.stack.rules == 0 then return answer end
  return answer .. WRITTEN .. v.engine.states(v, v.lift > 0 and 0 or min(ttl, NEVER))
end

-- decide_alone answers the request of a view.
local function decide_alone(v, max_wait)
  load_and_judge(v, max_wait)
  if v.foreign or v.known then return reply(v) end
  local at, counts = now + v.wait, v.always or v.stack.count_refused
  if v.peek then
    return reply(v, at)
  elseif v.retry == 0 then
    charge(v, at)
  elseif counts and charge_refused(v) then
    v.engine.judge(v, 0)
  end
  return reply(v, at, not counts)
end

local ALWAYS, UNCHARGED, VALUE = 4, 8, 16  -- flags of stint_reserve alone

local function view_of(name, stack, cost, flags, id, ids, value, max_wait)
  return {
    name = name, stack = stack, cost = cost, peek = flags % 2 == PEEK, detail = flags % ALWAYS >= DETAIL,
    always = flags % UNCHARGED >= ALWAYS, uncharged = flags >= UNCHARGED, id = id, ids = ids, value = value, max_wait = max_wait, engine = stack.engine or timestamps,
  }
end

decide_rare = function(name, stack, cost, flags, id, ids)
  return decide_alone(view_of(name, stack, cost, flags, id, ids), 0)
end

-- decide_all answers the requests of views as one.
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

-- Where the next request of the call at hand begins in ARGV 3, and the key of its log.
local next_byte, next_key

-- next_request reads the next request.
local function next_request(keys, args)
  local which, cost, flags, max_wait, id, at = unpack_at('>I1I4I1I4I1c0', args[3], next_byte)
  local name, ids, value = keys[next_key], nil, nil
  if flags >= VALUE then flags, value, at = flags - VALUE, sub(args[3], at, at + 15), at + 16 end
  next_key, next_byte = next_key + 1, at
  if id ~= '' then ids, next_key = keys[next_key], next_key + 1 else id = nil end
  return name, read_stack(args[3 + which]), cost, flags, id, ids, value, max_wait
end

local function reserve_rest(keys, args, answers)
  while next_byte <= #args[3] do
    asked = asked + 1
    local name, stack, cost, flags, id, ids, value, max_wait = next_request(keys, args)
    if max_wait == 0 and flags < ALWAYS and not value then
      answers[asked + 1] = decide(name, stack, cost, flags, id, ids)
    else
      answers[asked + 1] = decide_alone(view_of(name, stack, cost, flags, id, ids, value), max_wait)
    end
  end
end

-- stint_reserve answers requests with care for all that they may ask.
-- KEYS    the log of each request, and behind it, where it has an id, that of
--         the log's ids, as ids_of says
-- ARGV 1  as in stint_decide
-- ARGV 2  'together' where all are to be allowed or none; else each is answered
--         in its reservation as if it came alone
-- ARGV 3  each request in 11 bytes and its id: which stack, counted from 1; its
--         cost in four bytes, the highest first; its flags, as in stint_decide plus 4
--         to charge it also where it is refused, 8 to charge it never and 16 where a value
--         comes last; its longest wait in four; how long its id is, 0 for none; and behind the
--         id the hash of its value in 16 hexadecimal digits
-- ARGV 4+ the stacks, as read_stack reads them
-- return  as stint_decide, but for what is allowed later 4 and its reservation in 8
--         bytes; for what was charged before 3 and its reservation; and for what is
--         refused also 5, the index of the rule in 1 byte, the wait in 8, how long
--         that rule by itself has it wait in 8, 0 where reservations ahead or a counter
--         do, and how long the refusal ttl in 8, 0 where that is not known; such
--         a wait of 2^53 never ends. The states of a counter have 8 bytes too for
--         each wait, behind it in 8 when nothing counts any more, and no newest
--         entry.
local function reserve_many(keys, args)
  if set_now(args[1]) then return pack('>I8', now) end
  local answers = { pack('>I8', now) }
  next_key, next_byte = 1, 1
  if args[2] ~= 'together' then return answer_each(reserve_rest, keys, args, answers) end
  local views = {}
  while next_byte <= #args[3] do
    views[#views + 1] = view_of(next_request(keys, args))
  end
  if not try_call(decide_all, views, answers) then
    for i = 1, #views do answers[i + 1] = FOREIGN end
  end
  return concat(answers)
end

local engines = { timestamps }  -- all that there are

-- stint_cancel cancels a reservation.
-- KEYS 1  the log
-- KEYS 2  its ids
-- ARGV 1  as in stint_decide
-- ARGV 2  when the reservation is
-- ARGV 3  its cost
-- ARGV 4  the id of the request that reserved it
-- return  1 where that freed room, else 0
local function cancel(keys, args)
  set_now(args[1])
  local at, cost, id = tonumber(args[2]), tonumber(args[3]), args[4]
  local known, its_cost = known_reservation(keys[2], id)
  if at <= now or known ~= at or its_cost ~= cost then return 0 end
  for i = 1, #engines do
    local v = { name = keys[1] }
    engines[i].look(v)
    if not v.foreign then
      -- The reservations of a log that is to be moved are no longer where they were.
      if v.shift > 0 or not engines[i].cancel(v, at, cost, id) then return 0 end
      call('ZREM', keys[2], id)
      return 1
    end
  end
  return 0
end

redis.register_function('stint_reserve_' .. suffix, reserve_many)
redis.register_function('stint_cancel_' .. suffix, cancel)
