-- gcra: 1 the theoretical arrival time, in fractions of a millisecond.
local FINEST_FRACTION, LATEST_TIME, EXACT_NUMBERS = 1024, 4420000000000, 9007199254740992
local counter = {}

-- span returns by how many fractions a cost moves the arrival time ahead.
local function span(rule, cost)
  local window = rule.window * rule.fraction
  if rule.limit > MAX_BURST then return scaled_up(cost, window, rule.limit) end
  return cost * rounded_up(window, rule.limit)
end

-- prepare sets the fraction of a rule, and the span of its capacity.
function counter.prepare(rule)
  local burst = rule.burst > MAX_BURST and 1 or larger(1, rule.burst)
  local fraction, furthest = FINEST_FRACTION, LATEST_TIME + burst * rule.window
  while furthest * fraction >= EXACT_NUMBERS do fraction = fraction / 2 end
  rule.fraction = fraction
  if rule.limit > 0 then rule.furthest = span(rule, rule.capacity) end
end

function counter.size() return 1 end

function counter.advance(rule, s, at, now)
  local present = now * rule.fraction
  if s[at + 1] <= present then
    s[at + 1] = 0
    return false
  end
  return lower(s, at + 1, present + rule.furthest)
end

-- ahead returns how far the arrival time is in the future, in fractions.
local function ahead(rule, s, at, now) return larger(0, s[at + 1] - now * rule.fraction) end

function counter.wait(rule, s, at, now, cost)
  return rounded_up(larger(0, ahead(rule, s, at, now) + span(rule, cost) - rule.furthest), rule.fraction)
end

function counter.add(rule, s, at, now, cost)
  s[at + 1] = larger(s[at + 1], now * rule.fraction) + span(rule, cost)
end

function counter.remaining(rule, s, at, now)
  local left = rule.furthest - ahead(rule, s, at, now)
  if rule.limit <= MAX_BURST then return quotient(left, span(rule, 1)) end
  local cost = scaled(left, rule.limit, rule.window * rule.fraction)
  return smaller(cost, rule.capacity)
end

function counter.ttl(rule, s, at, now) return rounded_up(ahead(rule, s, at, now), rule.fraction) end

return counter
