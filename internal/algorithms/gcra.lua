-- gcra: 1 the theoretical arrival time, in fractions of a millisecond.
local FINEST_FRACTION, LATEST_TIME, EXACT_NUMBERS = 1024, 4420000000000, 9007199254740992
local counter = {}

-- prepare sets the fraction and the emission interval of a rule.
function counter.prepare(rule)
  local fraction, furthest = FINEST_FRACTION, LATEST_TIME + larger(1, rule.burst) * rule.window
  while furthest * fraction >= EXACT_NUMBERS do fraction = fraction / 2 end
  rule.fraction = fraction
  if rule.limit > 0 then rule.interval = rounded_up(rule.window * fraction, rule.limit) end
end

function counter.size() return 1 end

function counter.advance(rule, s, at, now)
  local present = now * rule.fraction
  if s[at + 1] <= present then
    s[at + 1] = 0
    return false
  end
  return lower(s, at + 1, present + rule.capacity * rule.interval)
end

-- ahead returns how far the arrival time is in the future, in fractions.
local function ahead(rule, s, at, now) return larger(0, s[at + 1] - now * rule.fraction) end

function counter.wait(rule, s, at, now, cost)
  return rounded_up(larger(0, ahead(rule, s, at, now) + (cost - rule.capacity) * rule.interval), rule.fraction)
end

function counter.add(rule, s, at, now, cost)
  s[at + 1] = larger(s[at + 1], now * rule.fraction) + cost * rule.interval
end

function counter.remaining(rule, s, at, now)
  return quotient(rule.capacity * rule.interval - ahead(rule, s, at, now), rule.interval)
end

function counter.ttl(rule, s, at, now) return rounded_up(ahead(rule, s, at, now), rule.fraction) end

return counter
