-- The log of amounts. A state is an array of runs, the oldest first, each of three numbers: the
-- time of its earliest request, the time at which it counts, and its amount. amount_log.go
-- explains when runs are merged.
local GRAINS, MAX_TOTAL = 256, 9007199254740991
local FORGIVES, VALUES = 2251799813685248, 2147483648  -- 2^51, 2^31

local amounts = {}

function amounts.prepare(stack)
  local rules = stack.rules
  stack.most, stack.longest = 3 * (512 + 2 * (GRAINS + 1) * #rules), 0
  for i = 1, #rules do stack.longest = larger(stack.longest, rules[i].window) end
end

local function drop_first(s, n)
  if n == 0 then return end
  local size = #s
  for i = 1, size - n do s[i] = s[i + n] end
  for i = size, size - n + 1, -1 do s[i] = nil end
end

local function advance(stack, s, now)
  local size, shifted = #s, false
  for i = size, size - size % 3 + 1, -1 do s[i] = nil end
  size = #s
  if size > 0 and s[size - 1] > now then
    local by = s[size - 1] - now
    for i = 1, size, 3 do
      s[i + 1] = s[i + 1] - by
      if not stack.tagged then s[i] = s[i] - by end
    end
    shifted = true
  end
  local gone, longest = 0, stack.longest
  while gone < size and s[gone + 2] + longest <= now do gone = gone + 3 end
  drop_first(s, gone)
  return shifted
end

-- used returns the total of the runs that are younger than window, and how many numbers precede
-- the oldest of them.
local function used(s, window, now)
  local total, oldest = 0, #s
  while oldest > 0 and s[oldest - 1] + window > now do
    total, oldest = total + s[oldest], oldest - 3
  end
  return total, oldest
end

local function wait(rule, s, now, cost)
  local total, i = used(s, rule.window, now)
  local free = now
  while total + cost > rule.limit do
    total, free, i = total - s[i + 3], s[i + 2] + rule.window, i + 3
  end
  return free - now
end

-- has returns whether a run has the tag. See point_log.go about tags.
local function has(s, tag)
  if tag % VALUES == 0 then return false end
  for i = 1, #s, 3 do
    if s[i] == tag then return true end
  end
  return false
end

function amounts.ask(stack, s, now, cost, _, tag)
  local rules, at, by = stack.rules, now, 0
  local shifted = advance(stack, s, now)
  if stack.tagged and (tag >= FORGIVES or has(s, tag)) then return now, 0, 0, shifted end
  for i = 1, #rules do
    local rule = rules[i]
    if cost > rule.limit then return NEVER, NEVER, i, shifted end
    local its = now + wait(rule, s, now, cost)
    if its > at then at, by = its, i end
  end
  return at, by > 0 and at or 0, by, shifted
end

-- grain returns how long a run that counts at a time may be.
local function grain(stack, at, now)
  local shortest, rules = stack.longest, stack.rules
  for i = 1, #rules do
    if at + rules[i].window > now then shortest = smaller(shortest, rules[i].window) end
  end
  return quotient(shortest, GRAINS)
end

local function merge(stack, s, now)
  local to = #s - 3
  local length = grain(stack, s[to + 2], now)
  for i = to - 3, 0, -3 do
    if s[to + 2] - s[i + 1] <= length then
      s[to + 1], s[to + 3] = s[i + 1], s[to + 3] + s[i + 3]
    else
      to = to - 3
      s[to + 1], s[to + 2], s[to + 3] = s[i + 1], s[i + 2], s[i + 3]
      length = grain(stack, s[to + 2], now)
    end
  end
  drop_first(s, to)
end

-- forgive takes up to points from the newest runs of the item of tag.
local function forgive(s, tag, points)
  local item, to = quotient(tag - FORGIVES, VALUES), #s
  for i = #s - 2, 1, -3 do
    if quotient(s[i], VALUES) == item then
      local taken = smaller(points, s[i + 2])
      points, s[i + 2] = points - taken, s[i + 2] - taken
    end
  end
  local kept = 0
  for i = 1, to, 3 do
    if s[i + 2] > 0 then
      s[kept + 1], s[kept + 2], s[kept + 3] = s[i], s[i + 1], s[i + 2]
      kept = kept + 3
    end
  end
  for i = to, kept + 1, -1 do s[i] = nil end
end

function amounts.add(stack, s, now, _, cost, _, tag)
  advance(stack, s, now)
  if stack.tagged then
    if tag >= FORGIVES then
      forgive(s, tag, cost)
    elseif not has(s, tag) then
      local size = #s
      s[size + 1], s[size + 2], s[size + 3] = tag, now, cost
    end
    return
  end
  local size = #s
  cost = smaller(cost, MAX_TOTAL - used(s, stack.longest, now))
  if size > 0 and s[size - 1] == now then
    s[size] = s[size] + cost
    return
  end
  s[size + 1], s[size + 2], s[size + 3] = now, now, cost
  if size + 3 > stack.most then merge(stack, s, now) end
end

function amounts.room(stack, s, now)
  local rules, room = stack.rules, FURTHEST
  advance(stack, s, now)
  for i = 1, #rules do room = smaller(room, larger(0, rules[i].limit - used(s, rules[i].window, now))) end
  return room
end

function amounts.remaining(stack, s, now, cost, list)
  local rules = stack.rules
  advance(stack, s, now)
  for i = 1, #rules do
    local rule, reset, its = rules[i], 0, NEVER
    local total, oldest = used(s, rule.window, now)
    if oldest < #s and rule.limit > 0 then reset = s[#s - 1] + rule.window - now end
    if cost <= rule.limit then its = wait(rule, s, now, cost) end
    list[#list + 1], list[#list + 2], list[#list + 3] = larger(0, rule.limit - total), its, reset
  end
end

function amounts.ttl(stack, s, now)
  advance(stack, s, now)
  if #s == 0 then return 0 end
  return s[#s - 1] + stack.longest - now
end

return amounts
