-- leaky_bucket: 1 the instant at which it was last looked at, 2 how full it was
-- then, in 1/window of a request.
local counter = { size = bucket.size, take = bucket.take, lasts = bucket.lasts }

function counter.settle(rule, s, at, now)
  if not rule.queue then return bucket.settle(rule, s, at, now) end
  local moved = lower(s, at + 1, now)
  give_back(rule, s, at, now)
  return lower(s, at + 2, rule.limit * (rule.window + 1)) or moved
end

function counter.wait(rule, s, at, now, cost)
  if not rule.queue then return bucket.wait(rule, s, at, now, cost) end
  return quotient(s[at + 2], rule.limit)
end

function counter.left(rule, s, at, now)
  if not rule.queue then return bucket.left(rule, s, at, now) end
  if s[at + 2] >= rule.limit then return 0 end
  return smaller(rule.limit, rule.capacity)
end

function counter.longest(rule)
  if not rule.queue or rule.limit == 0 then return FURTHEST end
  return quotient(rule.capacity * rule.window, rule.limit)
end

return counter
