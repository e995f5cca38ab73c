-- sliding_window: 1 the time at which the present window began, which follows the clock, 2 the
-- cost allowed since, 3 that of the window before.
local counter = {}

function counter.size() return 3 end

function counter.advance(rule, s, at, now)
  local window = rule.window
  local behind = now - s[at + 1]
  if behind >= 2 * window then
    s[at + 1], s[at + 2], s[at + 3] = 0, 0, 0
  elseif behind >= window then
    s[at + 1], s[at + 2], s[at + 3] = s[at + 1] + window, 0, s[at + 2]
    if s[at + 3] == 0 then s[at + 1] = 0 end
  end
  return lower(s, at + 1, clock_window_ahead(now, window))
end

-- weighs returns the estimated cost in the sliding window, times the window.
local function weighs(rule, s, at, now)
  local window = rule.window
  local elapsed = smaller(larger(0, now - s[at + 1]), window)
  return s[at + 2] * window + s[at + 3] * (window - elapsed)
end

function counter.wait(rule, s, at, now, cost)
  local limit, window = rule.limit, rule.window
  if weighs(rule, s, at, now) + cost * window <= limit * window then return 0 end
  local begins, counted, fading = s[at + 1], s[at + 2], s[at + 3]
  if counted + cost > limit then begins, counted, fading = begins + window, 0, counted end
  return begins + window - quotient((limit - counted - cost) * window, fading) - now
end

function counter.add(rule, s, at, now, cost)
  if s[at + 1] == 0 then s[at + 1] = clock_window(now, rule.window) end
  s[at + 2] = s[at + 2] + cost
end

function counter.remaining(rule, s, at, now)
  return quotient(larger(0, rule.limit * rule.window - weighs(rule, s, at, now)), rule.window)
end

function counter.ttl(rule, s, at, now)
  if s[at + 2] > 0 then return s[at + 1] + 2 * rule.window - now end
  if s[at + 3] > 0 then return s[at + 1] + rule.window - now end
  return 0
end

return counter
