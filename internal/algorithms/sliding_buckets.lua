-- sliding_buckets: 1 the number of the newest sub-window, counted from 1970; from 2 on the cost
-- allowed in it and in those before it, newest first.
local MAX_BUCKETS = 60
local counter = {}

local function buckets_of(rule) return smaller(MAX_BUCKETS, rule.window) end

function counter.size(rule) return 1 + buckets_of(rule) end

local function sum(rule, s, at)
  local total = 0
  for i = at + 2, at + 1 + buckets_of(rule) do total = total + s[i] end
  return total
end

function counter.advance(rule, s, at, now)
  local n = buckets_of(rule)
  local present = quotient(now * n, rule.window)
  local passed = present - s[at + 1]
  if passed >= n then
    for i = at + 1, at + 1 + n do s[i] = 0 end
  elseif passed > 0 then
    for i = at + 1 + n, at + 2 + passed, -1 do s[i] = s[i - passed] end
    for i = at + 2, at + 1 + passed do s[i] = 0 end
    s[at + 1] = sum(rule, s, at) > 0 and present or 0
  end
  return lower(s, at + 1, present + 1)
end

-- leaves returns the time at which a sub-window no longer counts.
local function leaves(rule, number)
  local n = buckets_of(rule)
  return rounded_up((number + n) * rule.window, n)
end

function counter.wait(rule, s, at, now, cost)
  local over = sum(rule, s, at) + cost - rule.limit
  if over <= 0 then return 0 end
  local age = buckets_of(rule)
  while over > 0 do
    age = age - 1
    over = over - s[at + 2 + age]
  end
  return leaves(rule, s[at + 1] - age) - now
end

function counter.add(rule, s, at, now, cost)
  if s[at + 1] == 0 then s[at + 1] = quotient(now * buckets_of(rule), rule.window) end
  s[at + 2] = s[at + 2] + cost
end

function counter.remaining(rule, s, at) return larger(0, rule.limit - sum(rule, s, at)) end

function counter.ttl(rule, s, at, now)
  for age = 0, buckets_of(rule) - 1 do
    if s[at + 2 + age] > 0 then return leaves(rule, s[at + 1] - age) - now end
  end
  return 0
end

return counter
