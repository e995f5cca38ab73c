-- stint_times reads a log.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- ARGV 2  how many times at most
-- return  the present time, then the times that are younger than the window
--         after which the log expires, the newest first, as decimal strings; no
--         times of a counter
local function times(keys, args)
  set_now(args[1])
  local found, most, v = { number(now) }, tonumber(args[2]), { name = keys[1] }
  timestamps.look(v)
  if v.foreign then
    set_times(v.name, most, found)
    return found
  end
  most = min(count, most)
  if most > recent then read_whole(RANGE) end
  for i = 1, most do
    local its_age = age(i) - v.lift
    if its_age >= window then break end
    found[#found + 1] = number(now - its_age)
  end
  return found
end

-- stint_reset forgets a log.
-- KEYS 1  the log
-- ARGV 1  as in stint_decide
-- return  1 where it held something, and 0 where it did not or had expired
local function reset(keys, args)
  set_now(args[1])
  local readable = open(keys[1])
  call('UNLINK', keys[1])
  return (not readable or count > 0) and 1 or 0
end

redis.register_function('stint_reset_' .. suffix, reset)
redis.register_function{ function_name = 'stint_times_' .. suffix, callback = times, flags = { 'no-writes' } }
