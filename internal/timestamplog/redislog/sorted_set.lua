-- The engine of sorted_set_log: the log as a sorted set. The score of an entry is its time.
-- Its member is the time, a dot, and a number that distinguishes and orders entries of the
-- same time. A plus follows in an entry of a reservation, and then by how much the newest
-- entry that did not belong to a reservation was earlier, if there was one.
local sorted_set = {}
local CHUNK = 2000  -- arguments of one command: unpack fails at some thousands

-- newest_of returns the time and the member of the newest entry, nil if there is none; and
-- whether the key holds something else.
local function newest_of(name)
  local found = try('ZRANGE', name, '-1', '-1', 'WITHSCORES')
  if is_foreign(found) then return nil, nil, true end
  return tonumber(found[2]), found[1], false
end

-- ordinary_of returns the time of the newest entry that does not belong to a reservation, nil
-- if there is none.
local function ordinary_of(name, newest_time, member)
  local mark = member:match('+(%d*)$')
  if not mark then return newest_time end
  local time = mark ~= '' and newest_time - tonumber(mark)
  if time and call('ZCOUNT', name, number(time), number(time)) > 0 then return time end
end

-- look also sets newest_time and member, of the newest entry; base, the time from which ages
-- are counted; and length, the number of entries.
function sorted_set.look(v)
  v.shift, v.lift, v.base, v.length = 0, 0, now, 0
  v.newest_time, v.member, v.foreign = newest_of(v.name)
  if not v.newest_time then return end
  v.length = call('ZCARD', v.name)
  local ahead = v.newest_time - now
  if ahead <= 0 then return end
  local its_ordinary = ordinary_of(v.name, v.newest_time, v.member)
  v.shift = clock_skew(ahead, its_ordinary ~= v.newest_time, its_ordinary and its_ordinary - now)
  v.lift, v.base = ahead - v.shift, v.newest_time
end

local function age_in_set(i, v)
  return v.base - tonumber(call('ZRANGE', v.name, -i, -i, 'WITHSCORES')[2])
end

function sorted_set.move(v)
  local entries_and_times, moved = call('ZRANGE', v.name, '0', '-1', 'WITHSCORES'), {}
  for i = 1, #entries_and_times, 2 do
    local time = number(entries_and_times[i + 1] - v.shift)
    moved[i], moved[i + 1] = time, time .. entries_and_times[i]:match('%..*$')
  end
  call('DEL', v.name)
  for from = 1, #moved, CHUNK do call('ZADD', v.name, unpack(moved, from, min(from + CHUNK - 1, #moved))) end
  v.newest_time, v.member, v.base = v.newest_time - v.shift, moved[#moved], v.base - v.shift
  call('PEXPIREAT', v.name, number(v.newest_time + v.stack.window))
  shift_ids(v.name, v.shift)
  v.shift = 0
end

function sorted_set.judge(v, max_wait)
  local longest, by = longest_wait(v.stack, v.cost, min_wait(v), v.length, age_in_set, v)
  local full = fullness(v.cost)
  set_waits(v, max_wait, longest, by, max_wait > 0 and v.length >= full and v.lift - age_in_set(full, v) or 0)
end

function sorted_set.charge(v, at)
  local stack, last_of_instant, mark = v.stack, 0, ''
  call('ZREMRANGEBYSCORE', v.name, '-inf', number(now - stack.window))
  if v.newest_time == at then last_of_instant = tonumber(v.member:match('%.(%d+)')) end
  if at > now then
    local its_ordinary = v.newest_time and ordinary_of(v.name, v.newest_time, v.member)
    mark = '+' .. (its_ordinary and number(at - its_ordinary) or '')
  end
  local fresh, time = {}, number(at)
  for i = 1, v.cost do
    fresh[2 * i - 1], fresh[2 * i] = time, format('%s.%07d%s', time, last_of_instant + i, mark)
  end
  for from = 1, #fresh, CHUNK do call('ZADD', v.name, unpack(fresh, from, min(from + CHUNK - 1, #fresh))) end
  local over = call('ZCOUNT', v.name, '-inf', number(now)) - stack.keep
  if over > 0 then call('ZREMRANGEBYRANK', v.name, '0', over - 1) end
  call('PEXPIREAT', v.name, number(at + stack.window))
  v.newest_time, v.member, v.base, v.lift = at, fresh[#fresh], at, at - now
  v.length = call('ZCARD', v.name)
end

function sorted_set.room(v)
  if v.lift > 0 then return 0 end
  local room, rules = RANGE, v.stack.rules
  for i = 1, #rules do
    local used = call('ZCOUNT', v.name, '(' .. number(now - rules[i].window), '+inf')
    room = min(room, max(0, rules[i].limit - used))
  end
  return room
end

function sorted_set.ttl(v)
  return v.length > 0 and call('PEXPIRETIME', v.name) - now or FOREVER
end

function sorted_set.states(v, holds)
  local written, rules = {}, v.stack.rules
  for i = 1, #rules do
    local limit, span = rules[i].limit, rules[i].window
    local used = call('ZCOUNT', v.name, '(' .. number(v.base - span), '+inf')
    if used > 0 then holds = min(holds, span - age_in_set(used, v)) end
    local wait, index = v.lift, limit - v.cost + 1
    if index < 1 then
      wait = NEVER
    elseif index <= used then
      wait = v.lift + span - age_in_set(index, v)
    end
    written[i] = pack('>I4I4', max(0, limit - used), wait)
  end
  written[#written + 1] = pack('>I4I8', max(0, holds), v.newest_time and v.newest_time - v.shift or 0)
  return concat(written)
end

function sorted_set.cancel(v, at, cost)
  local name, reserved_then, entries_then = v.name, {}, call('ZRANGEBYSCORE', v.name, number(at), number(at))
  for i = 1, #entries_then do
    if #reserved_then < cost then reserved_then[#reserved_then + 1] = entries_then[i] end
  end
  if #reserved_then == 0 then return false end
  local its_window = call('PEXPIRETIME', name) - v.newest_time
  call('ZREM', name, unpack(reserved_then))
  local newest_time = newest_of(name)
  if newest_time then call('PEXPIREAT', name, number(newest_time + its_window)) end
  return true
end

-- set_times appends the newest max_count times of a sorted set to found, like times.
local function set_times(name, max_count, found)
  local v = { name = name }
  sorted_set.look(v)
  if not v.newest_time or max_count < 1 then return end
  local oldest_time = now + v.shift - (call('PEXPIRETIME', name) - v.newest_time)
  local entries_and_times = call('ZRANGE', name, '0', max_count - 1, 'REV', 'WITHSCORES')
  for i = 2, #entries_and_times, 2 do
    local time = tonumber(entries_and_times[i])
    if time <= oldest_time then return end
    found[#found + 1] = number(time - v.shift)
  end
end

engines[#engines + 1] = sorted_set
