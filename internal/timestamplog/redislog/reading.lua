-- stint_times reads a log.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- ARGV 2  the maximum number of times
-- return  the present time, then the times that are younger than the window after which the
--         log expires, newest first, as decimal strings; a counter has no times
local function times(keys, args)
  set_now(args[1])
  local found, max_count, v = { number(now) }, tonumber(args[2]), { name = keys[1] }
  timestamps.look(v)
  if v.foreign then
    set_times(v.name, max_count, found)
    return found
  end
  max_count = min(count, max_count)
  if max_count > recent then read_whole(RANGE) end
  for i = 1, max_count do
    local its_age = age(i) - v.lift
    if its_age >= window then break end
    found[#found + 1] = number(now - its_age)
  end
  return found
end

-- stint_numbers reads the state of a counter.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- return  the present time, then the numbers of its state, as decimal strings; a log that is not a
--         counter has none
local function numbers(keys, args)
  set_now(args[1])
  local found, numbers = { number(now) }, engine.numbers(state_of(keys[1]) or {})
  for i = 1, #numbers do found[i + 1] = number(numbers[i]) end
  return found
end

-- stint_holds reads the open holds of a log.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- return  the present time, and of each hold, the oldest first, when it was taken, its amount, when it expires and
--         its source, as strings
local function holds(keys, args)
  set_now(args[1])
  local found, open = { number(now) }, engine.holds(state_of(keys[1]) or {}, now)
  for i = 1, #open do
    local size, hold = #found, open[i]
    found[size + 1], found[size + 2], found[size + 3], found[size + 4] = number(hold[1]), number(hold[2]), number(hold[3]), hold[4]
  end
  return found
end

-- stint_reset deletes a log.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- return  1 if the key held anything that had not expired, otherwise 0
local function reset(keys, args)
  set_now(args[1])
  local existed
  if open(keys[1]) then
    existed = count > 0
  else
    local counter = look(keys[1])
    existed = not counter or not engine.is_empty(counter)
  end
  call('UNLINK', keys[1])
  return existed and 1 or 0
end

-- stint_try executes every command that the other functions call, so that a right that the
-- user lacks is found before a request needs it.
-- KEYS 1  a log, which is deleted
-- KEYS 2  its ids, which are deleted
-- return  the names of the commands that the user may not call
local function try_commands(keys)
  set_now('')
  local log, ids, denied = keys[1], keys[2], {}
  local function attempt(name, ...)
    local its = try(name, ...)
    if type(its) ~= 'table' or not its.err then return end
    if not is_denied(its.err) then error(its, 0) end
    denied[#denied + 1] = name
  end
  attempt('DEL', ids)
  attempt('SET', log, 'x', 'PXAT', number(now + 1000))
  attempt('PEXPIRETIME', log)
  attempt('SETRANGE', log, '0', 'x')
  attempt('GETRANGE', log, '0', '0')
  attempt('GET', log)
  attempt('ZADD', ids, '1', 'x')
  attempt('PEXPIREAT', ids, number(now + 1000))
  attempt('ZMSCORE', ids, 'x')
  attempt('ZCARD', ids)
  attempt('ZCOUNT', ids, '-inf', '+inf')
  attempt('ZRANGE', ids, '0', '0')
  attempt('ZRANGEBYSCORE', ids, '-inf', '+inf')
  attempt('ZREVRANK', ids, 'x')
  attempt('ZREM', ids, 'y')
  attempt('ZREMRANGEBYSCORE', ids, '-inf', '0')
  attempt('ZREMRANGEBYRANK', ids, '1', '1')
  attempt('UNLINK', log, ids)
  return denied
end

redis.register_function('stint_try_' .. suffix, try_commands)
redis.register_function('stint_reset_' .. suffix, reset)
redis.register_function{ function_name = 'stint_times_' .. suffix, callback = times, flags = { 'no-writes' } }
redis.register_function{ function_name = 'stint_numbers_' .. suffix, callback = numbers, flags = { 'no-writes' } }
redis.register_function{ function_name = 'stint_holds_' .. suffix, callback = holds, flags = { 'no-writes' } }
