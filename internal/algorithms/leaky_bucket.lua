-- leaky_bucket: 1 the time of the last update, 2 how full the bucket was then, as token_bucket keeps what is missing.
local counter = { size = bucket.size, add = bucket.add, ttl = bucket.ttl }

function counter.advance(rule, s, at, now)
  if not rule.queue then return bucket.advance(rule, s, at, now) end
  local moved = lower(s, at + 1, now)
  refill(rule, s, at, now)
  local whole, part = scaled(rule.limit, rule.window + 1, rule.window)
  return reduce_missing(rule, s, at, whole, part) or moved
end

function counter.wait(rule, s, at, now, cost)
  if not rule.queue then return bucket.wait(rule, s, at, now, cost) end
  local whole, part = missing(rule, s, at)
  local ms, left = scaled(whole, rule.window, rule.limit)
  return ms + quotient(left + part, rule.limit)
end

function counter.remaining(rule, s, at, now)
  if not rule.queue then return bucket.remaining(rule, s, at, now) end
  if counter.wait(rule, s, at, now, 1) > 0 then return 0 end
  return smaller(rule.limit, rule.capacity)
end

function counter.max_delay(rule)
  if not rule.queue or rule.limit == 0 then return FURTHEST end
  return (scaled(rule.capacity, rule.window, rule.limit))
end

return counter
