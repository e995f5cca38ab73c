-- Asks Stint about a request. In haproxy.cfg:
--
--   global
--       lua-load /etc/haproxy/stint.lua
--   frontend web
--       http-request lua.stint http://127.0.0.1:8080/v1/forward?policy=site open
--
-- The first argument is the URL, the second is what happens while Stint cannot be
-- reached: "open" lets requests pass, "closed" refuses them with 503. The variables
-- txn.stint_status (an integer, 200 for allowed), txn.stint_retry_after,
-- txn.stint_ratelimit and txn.stint_refusal_id hold the answer.
--
-- It needs HAProxy 2.5 or newer and nothing else.

local hop_by_hop = {
    ["connection"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true, ["te"] = true, ["trailer"] = true,
    ["upgrade"] = true, ["proxy-connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true,
    -- What only this script may set, whatever the client sent.
    ["x-forwarded-for"] = true, ["x-forwarded-host"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-method"] = true,
}

local function first(values)
    if values == nil then return nil end
    return values[0] or values[1]
end

local function ask(txn, url, failure)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not hop_by_hop[name] then
            local list = {}
            for _, value in pairs(values) do list[#list + 1] = value end
            headers[name] = list
        end
    end
    headers["x-forwarded-for"] = { txn.f:src() }
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-uri"] = { txn.f:path() }
    local host = txn.f:req_hdr("host")
    if host ~= nil and host ~= "" then headers["x-forwarded-host"] = { host } end

    local answer = core.httpclient():get { url = url, headers = headers, timeout = 500 }
    local status = answer and answer.status or 0
    -- 429, 403 and 503 with a decision are Stint's; all else is a failure.
    local decision = answer and answer.headers and first(answer.headers["x-stint-decision"])
    if decision == nil then
        core.Warning("stint: no decision, status " .. tostring(status))
        txn:set_var("txn.stint_status", failure == "closed" and 503 or 200)
        return
    end
    txn:set_var("txn.stint_status", tonumber(first(answer.headers["x-stint-status"])) or status)
    txn:set_var("txn.stint_retry_after", first(answer.headers["retry-after"]) or "")
    txn:set_var("txn.stint_ratelimit", first(answer.headers["ratelimit"]) or "")
    txn:set_var("txn.stint_refusal_id", first(answer.headers["x-stint-refusal-id"]) or "")
end

core.register_action("stint", { "http-req" }, ask, 2)
