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

-- room returns the limit less the estimated cost in the sliding window, rounded down.
local function room(rule, s, at, now)
  local window = rule.window
  local elapsed = smaller(larger(0, now - s[at + 1]), window)
  return rule.limit - s[at + 2] - scaled_up(s[at + 3], window - elapsed, window)
end

function counter.wait(rule, s, at, now, cost)
  if cost <= room(rule, s, at, now) then return 0 end
  local limit, window = rule.limit, rule.window
  local begins, counted, fading = s[at + 1], s[at + 2], s[at + 3]
  if counted + cost > limit then begins, counted, fading = begins + window, 0, counted end
  local unfaded = scaled(limit - counted - cost, window, fading)
  return begins + window - unfaded - now
end

function counter.add(rule, s, at, now, cost)
  if s[at + 1] == 0 then s[at + 1] = clock_window(now, rule.window) end
  s[at + 2] = s[at + 2] + cost
end

function counter.remaining(rule, s, at, now)
  return larger(0, room(rule, s, at, now))
end

function counter.ttl(rule, s, at, now)
  if s[at + 2] > 0 then return s[at + 1] + 2 * rule.window - now end
  if s[at + 3] > 0 then return s[at + 1] + rule.window - now end
  return 0
end

return counter
