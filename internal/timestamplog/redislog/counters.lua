-- The engine of the counters, whose arithmetic is in engine.lua of package algorithms. The
-- state of a counter is a string: an array of numbers in MessagePack, or what engine.write says.
local counting = {}

-- state_of returns the state of a counter, empty if there is none, and nil if the key holds
-- something else.
local function state_of(name)
  local written = try('GET', name)
  if not written then return {} end
  if is_foreign(written) then return nil end
  local readable, state = pcall(engine.read, written)
  return readable and state or nil
end

function counting.look(v)
  v.shift, v.lift = 0, 0
  v.state = state_of(v.name)
  v.foreign = v.state == nil
end

local function store(v)
  local ttl = engine.ttl(v.stack.counting, v.state, now)
  if ttl > 0 then
    call('SET', v.name, engine.write(v.state), 'PXAT', number(now + ttl))
  else
    call('UNLINK', v.name)
  end
end

local function wait_of(from_engine)
  if from_engine < 0 then return FOREVER end
  return from_engine
end

-- tag_of returns what a request is charged for under the log of points, and the tag of a hold.
local function tag_of(v) return v.value and tonumber(v.value, 16) or 0 end

function counting.judge(v, max_wait)
  local reservation, retry, by, moved, full = engine.ask(v.stack.counting, v.state, now, v.cost, max_wait, tag_of(v), v.hold)
  v.wait = reservation < 0 and FOREVER or reservation - now
  v.retry = retry <= 0 and wait_of(retry) or retry - now
  v.by, v.own, v.full = v.stack.rules[by], 0, full
  if moved and not v.peek then store(v) end
end

function counting.charge(v, at)
  engine.add(v.stack.counting, v.state, now, at, v.cost, v.id or '', tag_of(v), v.hold)
  store(v)
end

function counting.room(v) return engine.room(v.stack.counting, v.state, now) end

-- A stack with higher limits may have left a state that expires before the wait ends, and the
-- settlement of a hold may end it earlier.
function counting.ttl(v)
  if v.retry == FOREVER then return FOREVER end
  if v.state[1] and v.state[1] < 0 then return 0 end
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
function counting.cancel(v, at, cost, id)
  local state = v.state
  if at > now then
    if #state < 4 or not engine.cancel((#state - 3) / 2, state, now, at, id) then return false end
  elseif not engine.cancel_charge(state, now, at, cost) then
    return false
  end
  if not engine.is_empty(state) then call('SET', v.name, engine.write(state), 'KEEPTTL') else call('UNLINK', v.name) end
  return true
end

engines[#engines + 1] = counting

-- stint_settle ends or renews a hold under the log of amounts.
-- KEYS 1  the log
-- KEYS 2  the answer about a hold that was settled, which is kept for the lifetime of an id
-- ARGV 1  as in stint_decide
-- ARGV 2  the stack, as read_stack parses it
-- ARGV 3  the tag of the hold, in hexadecimal digits
-- ARGV 4  what was used, -1 for what was held
-- ARGV 5  for how many milliseconds from now to renew it, 0 to end it
-- return  the present time, and the results of engine.settle as numbers with spaces between,
--         followed by " again" if this is an earlier answer; without them if the key holds
--         something else
local function settle(keys, args)
  set_now(args[1])
  local v, extend = { name = keys[1], stack = read_stack(args[2]) }, tonumber(args[5])
  counting.look(v)
  if v.foreign then return { number(now) } end
  local state, held, used, over, expires, was, changed = engine.settle(v.stack.counting, v.state, now, tonumber(args[3], 16), tonumber(args[4]), extend)
  if state == 0 then
    if changed then store(v) end
    local at, known = (call('GET', keys[2]) or ''):match('^(%d+) (.*)$')
    if at and now < tonumber(at) + ID_LIFETIME then return { number(now), known .. ' again' } end
  else
    store(v)
  end
  local answer = concat({ number(state), number(held), number(used), number(over), number(expires), number(was) }, ' ')
  if state > 0 and extend == 0 then call('SET', keys[2], number(now) .. ' ' .. answer, 'PXAT', number(now + ID_LIFETIME)) end
  return { number(now), answer }
end

redis.register_function('stint_settle_' .. suffix, settle)

-- use_algorithm parses "algorithm,burst,first,queue,refused", the last three 1 or 0, and a u behind it
-- for a bucket of amounts; see algorithms.Options. The algorithm is "distinct" for distinct rules.
use_algorithm = function(stack, written)
  local name, burst, first, queue, refused, unit = written:match('^([%a_]+),(%d+),(%d),(%d),(%d)(u?)$')
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
    rule.amounts = unit == 'u'
  end
  stack.engine, stack.counting = counting, engine.stack(name, stack.rules)
end
