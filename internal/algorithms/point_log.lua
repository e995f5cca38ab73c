-- The log of points: that of amounts, whose runs have a tag in place of the time of their earliest
-- request, and are neither joined nor merged.
local amounts, points = counters.amount_log, {}

function points.prepare(stack)
  amounts.prepare(stack)
  stack.tagged = true
end

points.ask, points.add, points.room = amounts.ask, amounts.add, amounts.room
points.remaining, points.ttl, points.numbers = amounts.remaining, amounts.ttl, amounts.numbers

return points
