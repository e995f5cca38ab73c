-- The requests of wrk. Arguments: the prefix of the keys, the number of keys, the detail of
-- the checks ("none" or "rules"), the number of checks in a request, and the kind of request.
-- The kinds are "" for checks, "forward" for /v1/forward as gateways call it, about addresses,
-- "ratelimit" for envoyproxy/ratelimit and "gubernator" for Gubernator, each in its JSON. After
-- the prefix "ip:", keys are addresses. Each thread creates its requests before the clock
-- starts, in an order of its own.

local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

local requests, at = {}, 0

local function address(n)
  return string.format("10.%d.%d.%d", math.floor(n / 65536), math.floor(n / 256) % 256, n % 256)
end

local function check(prefix, keys, detail)
  local n = math.random(keys)
  return string.format('{"key":"%s%s","detail":"%s"}', prefix, prefix == "ip:" and address(n) or n, detail)
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
    if args[5] == "ratelimit" then
      body = string.format('{"domain":"bench","descriptors":[{"entries":[{"key":"user","value":"%d"}]}]}', math.random(keys))
      requests[i] = wrk.format("POST", "/json", headers, body)
    end
    if args[5] == "gubernator" then
      body = string.format('{"requests":[{"name":"bench","unique_key":"%d","hits":1,"limit":1000,"duration":60000}]}', math.random(keys))
      requests[i] = wrk.format("POST", "/v1/GetRateLimits", headers, body)
    end
    if args[5] == "forward" then
      requests[i] = wrk.format("GET", "/v1/forward", { ["X-Forwarded-For"] = address(math.random(keys)) })
    end
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
