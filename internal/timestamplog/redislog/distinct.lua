-- The engine of distinct rules: a sorted set of the values that they count. A member is the
-- hash of a value, 16 hexadecimal digits; its score is the time when the value was last
-- allowed. The value of a view is nil for a new one. look also sets newest_time, of the
-- newest entry, and length, the number of entries.
local distinct = {}

function distinct.look(v)
  v.shift, v.lift, v.length = 0, 0, 0
  local _
  v.newest_time, _, v.foreign = newest_of(v.name)
  if not v.newest_time then return end
  v.length, v.shift = call('ZCARD', v.name), max(0, v.newest_time - now)
end

-- time_of returns the time when the i-th newest value was last allowed.
local function time_of(v, i)
  return tonumber(call('ZRANGE', v.name, -i, -i, 'WITHSCORES')[2]) - v.shift
end

function distinct.move(v)
  local values, moved = call('ZRANGE', v.name, '0', '-1', 'WITHSCORES'), {}
  for i = 1, #values, 2 do moved[i], moved[i + 1] = number(values[i + 1] - v.shift), values[i] end
  for from = 1, #moved, CHUNK do call('ZADD', v.name, unpack(moved, from, min(from + CHUNK - 1, #moved))) end
  v.newest_time = v.newest_time - v.shift
  call('PEXPIREAT', v.name, number(v.newest_time + v.stack.window))
  shift_ids(v.name, v.shift)
  v.shift = 0
end

-- judge allows a value if, with it, the window of each rule has at most limit values. So the
-- limit-th newest of the other values must have left the window.
function distinct.judge(v, max_wait)
  local rules, free = v.stack.rules, now
  local own = v.value and call('ZREVRANK', v.name, v.value) or v.length  -- how many are newer
  v.by, v.own = nil, 0
  for i = 1, #rules do
    local rule = rules[i]
    local boundary = own < rule.limit and rule.limit + 1 or rule.limit
    if boundary <= v.length then
      local its = time_of(v, boundary) + rule.window
      if its > free then free, v.by = its, rule end
    end
  end
  v.wait = free - now
  v.retry = max(0, v.wait - max_wait)
  if v.by then v.own = v.wait end
end

function distinct.charge(v)
  call('ZREMRANGEBYSCORE', v.name, '-inf', number(now - v.stack.window))
  call('ZADD', v.name, number(now), v.value)
  v.length, v.newest_time = call('ZCARD', v.name), now
  -- One more than the largest limit, since the value of the request may be among them. A
  -- stricter policy before this one may have let more values into a window.
  local keep = v.stack.keep + 1
  if v.length > keep then
    call('ZREMRANGEBYRANK', v.name, '0', v.length - keep - 1)
    v.length = keep
  end
  call('PEXPIREAT', v.name, number(now + v.stack.window))
end

-- room is called for a refused value, of which no part can be charged.
function distinct.room() return 0 end

function distinct.ttl(v) return v.length > 0 and call('PEXPIRETIME', v.name) - now or FOREVER end

-- states returns the states for a new value.
function distinct.states(v)
  local written, rules = {}, v.stack.rules
  for i = 1, #rules do
    local limit, span, wait = rules[i].limit, rules[i].window, 0
    local left = max(0, limit - call('ZCOUNT', v.name, '(' .. number(now - span + v.shift), '+inf'))
    if left == 0 then wait = time_of(v, limit) + span - now end
    written[i] = pack('>I4I4', left, wait)
  end
  written[#written + 1] = pack('>I4I8', 0, v.newest_time and v.newest_time - v.shift or 0)
  return concat(written)
end
