-- The engine of the counters, whose arithmetic is in engine.lua of package algorithms. The
-- state of a counter is a string: an array of numbers in MessagePack, or what engine.write says.
local counting = {}

-- is_over reports whether a state with runs alone has expired, which Redis drops somewhat later.
local function is_over(state) return state.n and not state[1] and state.last + state.window <= now end

-- state_of returns the state of a counter, empty if there is none, and nil if the key holds
-- something else.
local function state_of(name)
  local written = try('GET', name)
  if not written then return {} end
  if is_foreign(written) then return nil end
  local readable, state = pcall(engine.read, written)
  if readable and state and is_over(state) then return {} end
  return readable and state or nil
end

local FIRST_BYTE, HEAD_END = engine.HEAD_SIZE - 1, '39'

-- position_of returns the text of a position in a state behind its head.
local texts = {}
local function position_of(i)
  local text = texts[i]
  if not text then
    text = number(FIRST_BYTE + i)
    if i <= 65536 then texts[i] = text end
  end
  return text
end

function engine.fetch(name, from, to) return call('GETRANGE', name, position_of(from), position_of(to)) end

-- look returns the state of a counter as state_of does, without reading all runs. stack is nil if it is not known.
local function look(name, stack)
  local head = (not stack or stack.counting.shared) and try('GETRANGE', name, '0', HEAD_END)
  if not head then return state_of(name) end
  if is_foreign(head) then return nil end
  if head == '' then return {} end
  local state = engine.look(head, name)
  if not state then return state_of(name) end
  return is_over(state) and {} or state
end

function counting.look(v)
  v.shift, v.lift = 0, 0
  v.state = look(v.name, v.stack)
  v.foreign = v.state == nil
end

-- store writes a state. Redis drops one with runs alone somewhat later than it expires, so that not every charge
-- must set the expiry.
local function store(name, stack, state)
  local drops
  if (state.n or 0) > 0 and not state[1] then
    local expires, must_expire = state.last + stack.counting.longest, false
    state.window = stack.counting.longest
    if state.drops < expires or state.drops > expires + stack.margin then state.drops, must_expire = expires + stack.margin, true end
    drops = state.drops
    local head, changed, at = engine.changes(state)
    if head then
      call('SETRANGE', name, position_of(at - FIRST_BYTE), changed)
      call('SETRANGE', name, '0', head)
      if must_expire then call('PEXPIREAT', name, number(drops)) end
      return
    end
  else
    local ttl = engine.ttl(stack.counting, state, now)
    if ttl <= 0 then
      call('UNLINK', name)
      return
    end
    drops = now + ttl
  end
  call('SET', name, engine.write(state), 'PXAT', number(drops))
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
  if moved and not v.peek then store(v.name, v.stack, v.state) end
end

function counting.charge(v, at)
  engine.add(v.stack.counting, v.state, now, at, v.cost, v.id or '', tag_of(v), v.hold, v.source)
  store(v.name, v.stack, v.state)
end

function counting.room(v) return engine.room(v.stack.counting, v.state, now) end

-- valid_for returns how long a refusal that ends after a time stays valid. A stack with higher limits may have left a
-- state that expires before the wait ends, and the settlement of a hold may end it earlier.
local function valid_for(name, state, retry)
  if retry == FOREVER then return FOREVER end
  if state[1] and state[1] < 0 then return 0 end
  if (state.n or 0) > 0 and state.window > 0 then return state.last + state.window - now end
  local drops = call('PEXPIRETIME', name)
  return drops >= 0 and drops - now or FOREVER
end

function counting.ttl(v) return valid_for(v.name, v.state, v.retry) end

-- decide_plainly answers a request without flags and an id, and returns nil if its key holds something else. Fast path.
-- Plain version: decide_rare. Benchmark: BenchmarkAmounts.
function counting.decide_plainly(name, stack, cost)
  local state = look(name, stack)
  if not state then return nil end
  local at, retry, by, moved, full = engine.ask(stack.counting, state, now, cost, 0, 0)
  if retry == 0 then
    engine.add(stack.counting, state, now, at, cost, '', 0)
    store(name, stack, state)
    return ALLOWED
  end
  if moved then store(name, stack, state) end
  local index = stack.rules[by].index
  retry = retry < 0 and FOREVER or retry - now
  return WAITS .. pack('>BI8I8I8', full and index + TOO_MANY_HOLDS or index, retry, 0, min(retry, max(0, valid_for(name, state, retry))))
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
    if changed then store(v.name, v.stack, v.state) end
    local at, known = (call('GET', keys[2]) or ''):match('^(%d+) (.*)$')
    if at and now < tonumber(at) + ID_LIFETIME then return { number(now), known .. ' again' } end
  else
    store(v.name, v.stack, v.state)
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
