-- fixed_window: 1 the time at which the window began, 2 the cost allowed since.
local counter = {}

function counter.size() return 2 end

function counter.advance(rule, s, at, now)
  if now - s[at + 1] >= rule.window then
    s[at + 1], s[at + 2] = 0, 0
    return false
  end
  return lower(s, at + 1, rule.first and now or clock_window_ahead(now, rule.window))
end

function counter.wait(rule, s, at, now, cost)
  if s[at + 2] + cost <= rule.limit then return 0 end
  return s[at + 1] + rule.window - now
end

function counter.add(rule, s, at, now, cost)
  if s[at + 2] == 0 then s[at + 1] = rule.first and now or clock_window(now, rule.window) end
  s[at + 2] = s[at + 2] + cost
end

function counter.remaining(rule, s, at) return larger(0, rule.limit - s[at + 2]) end

function counter.ttl(rule, s, at, now)
  if s[at + 2] == 0 then return 0 end
  return s[at + 1] + rule.window - now
end

return counter
