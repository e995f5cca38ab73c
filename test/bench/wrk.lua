-- What wrk asks. Arguments: what keys begin with, how many keys there are,
-- "none" or "rules" for what a check says of its rules, and how many checks go
-- into one request. All requests are made up before the clock starts, in an
-- order of each thread's own.

local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

local requests, at = {}, 0

local function check(prefix, keys, detail)
  return string.format('{"key":"%s%d","detail":"%s"}', prefix, math.random(keys), detail)
end

function init(args)
  local prefix, keys, detail, batch = args[1], tonumber(args[2]), args[3], tonumber(args[4])
  math.randomseed(number)
  local headers = { ["Content-Type"] = "application/json" }
  local count = math.max(1000, math.floor(50000 / batch))
  for i = 1, count do
    local body, path = check(prefix, keys, detail), "/v1/check"
    if batch > 1 then
      local checks = { body }
      for n = 2, batch do checks[n] = check(prefix, keys, detail) end
      body, path = '{"checks":[' .. table.concat(checks, ",") .. "]}", "/v1/check/batch"
    end
    requests[i] = wrk.format("POST", path, headers, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
