-- leaky_bucket: 1 the time of the last update, 2 how full the bucket was then, in 1/window of a
-- request.
local counter = { size = bucket.size, add = bucket.add, ttl = bucket.ttl }

function counter.advance(rule, s, at, now)
  if not rule.queue then return bucket.advance(rule, s, at, now) end
  local moved = lower(s, at + 1, now)
  refill(rule, s, at, now)
  return lower(s, at + 2, rule.limit * (rule.window + 1)) or moved
end

function counter.wait(rule, s, at, now, cost)
  if not rule.queue then return bucket.wait(rule, s, at, now, cost) end
  return quotient(s[at + 2], rule.limit)
end

function counter.remaining(rule, s, at, now)
  if not rule.queue then return bucket.remaining(rule, s, at, now) end
  if s[at + 2] >= rule.limit then return 0 end
  return smaller(rule.limit, rule.capacity)
end

function counter.max_delay(rule)
  if not rule.queue or rule.limit == 0 then return FURTHEST end
  return quotient(rule.capacity * rule.window, rule.limit)
end

return counter
