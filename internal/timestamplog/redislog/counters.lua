-- The engine of the counters, whose arithmetic is in engine.lua of package algorithms. The
-- state of a counter is a string: an array of numbers in MessagePack.
local counting = {}

-- state_of returns the state of a counter, empty if there is none, and nil if the key holds
-- something else.
local function state_of(name)
  local written = try('GET', name)
  if not written then return {} end
  if is_foreign(written) then return nil end
  local readable, state = pcall(cmsgpack.unpack, written)
  return readable and type(state) == 'table' and state or nil
end

function counting.look(v)
  v.shift, v.lift = 0, 0
  v.state = state_of(v.name)
  v.foreign = v.state == nil
end

local function store(v)
  local ttl = engine.ttl(v.stack.counting, v.state, now)
  if ttl > 0 then
    call('SET', v.name, cmsgpack.pack(v.state), 'PXAT', number(now + ttl))
  else
    call('UNLINK', v.name)
  end
end

local function wait_of(from_engine)
  if from_engine < 0 then return FOREVER end
  return from_engine
end

-- tag_of returns what a request is charged for under the log of points.
local function tag_of(v) return v.value and tonumber(v.value, 16) or 0 end

function counting.judge(v, max_wait)
  local reservation, retry, by, moved = engine.ask(v.stack.counting, v.state, now, v.cost, max_wait, tag_of(v))
  v.wait = reservation < 0 and FOREVER or reservation - now
  v.retry = retry <= 0 and wait_of(retry) or retry - now
  v.by, v.own = v.stack.rules[by], 0
  if moved and not v.peek then store(v) end
end

function counting.charge(v, at)
  engine.add(v.stack.counting, v.state, now, at, v.cost, v.id or '', tag_of(v))
  store(v)
end

function counting.room(v) return engine.room(v.stack.counting, v.state, now) end

-- A stack with higher limits may have left a state that expires before the wait ends.
function counting.ttl(v)
  if v.retry == FOREVER then return FOREVER end
  local drops = call('PEXPIRETIME', v.name)
  return drops >= 0 and drops - now or FOREVER
end

function counting.states(v)
  local written, list = {}, {}
  engine.remaining(v.stack.counting, v.state, now, v.cost, list)
  for i = 1, #list, 3 do written[#written + 1] = pack('>I8I8I8', list[i], wait_of(list[i + 1]), list[i + 2]) end
  written[#written + 1] = pack('>I4', 0)
  return concat(written)
end

-- The state of a counter has the costs of its reservations.
function counting.cancel(v, at, _, id)
  local state = v.state
  if #state == 0 or not engine.cancel((#state - 3) / 2, state, now, at, id) then return false end
  call('SET', v.name, cmsgpack.pack(state), 'KEEPTTL')
  return true
end

engines[#engines + 1] = counting

-- use_algorithm parses "algorithm,burst,first,queue,refused", the last three 1 or 0; see
-- algorithms.Options. The algorithm is "distinct" for distinct rules.
use_algorithm = function(stack, written)
  local name, burst, first, queue, refused = written:match('^([%a_]+),(%d+),(%d),(%d),(%d)$')
  if name == 'sorted_set_log' then
    stack.engine, stack.count_refused = sorted_set, refused == '1'
    return
  end
  if name == 'distinct' then
    stack.engine = distinct
    return
  end
  for i = 1, #stack.rules do
    local rule = stack.rules[i]
    rule.burst, rule.first, rule.queue = tonumber(burst), first == '1', queue == '1'
  end
  stack.engine, stack.counting = counting, engine.stack(name, stack.rules)
end
