-- Asks Stint about a request. In haproxy.cfg:
--
--   global
--       lua-load /etc/haproxy/stint.lua
--   frontend web
--       http-request lua.stint http://127.0.0.1:8080/v1/forward?policy=site open
--
-- The first argument is the URL, the second is what happens while Stint cannot be
-- reached: "open" lets requests pass, "closed" refuses them with 503. What Stint
-- refuses to read is refused with 503 either way: a client could cause it. The variables
-- txn.stint_status (an integer, 200 for allowed), txn.stint_retry_after,
-- txn.stint_ratelimit and txn.stint_refusal_id hold the answer.
--
-- Where Stint runs with --forward-token-header, write the name before that:
--
--       setenv STINT_TOKEN_HEADER X-Gateway-Token
--
-- It needs HAProxy 2.5 or newer and nothing else.

local token_header = (os.getenv("STINT_TOKEN_HEADER") or "X-Stint-Token"):lower()

-- Of the client's headers only those are sent that Stint reads: some that it always does, and
-- those that the URL names, as by=header:X-Api-Key does. So a client neither writes what only
-- this script may, as X-Forwarded-For, nor sends more than HAProxy's client or Stint takes.
local always = { "user-agent", "traceparent" }
local max_lines, max_value, max_path, max_bytes = 2, 2048, 8000, 12000

local function unescape(text)
    return (text:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
end

-- Returns the names of the headers that a URL's query is about.
local names_of = {}
local function named(url)
    if names_of[url] == nil then
        local names = { token_header }
        for parameter, value in url:gmatch("[?&]([^=&]+)=([^&]*)") do
            local kind, name = unescape(value):match("^([%a-]+):(.+)$")
            if parameter == "by" and kind == "cookie" then
                names[#names + 1] = "cookie"
            elseif name ~= nil and (parameter == "by" or parameter == "id") then
                names[#names + 1] = name:lower()
            end
        end
        for _, name in ipairs(always) do names[#names + 1] = name end
        names_of[url] = names
    end
    return names_of[url]
end

-- Returns a text that Stint reads whatever the client wrote.
local function clean(text, most)
    return (text:sub(1, most):gsub("[%z\1-\8\10-\31\127]", "?"))
end

-- Returns a path, once it is in its plain spelling where it is long, so that no padding of
-- slashes and dots hides what it leads to.
local function plain(path)
    if #path <= max_path then return path end
    local parts = {}
    for part in unescape(path):gmatch("[^/]+") do
        if part == ".." then
            parts[#parts] = nil
        elseif part ~= "." then
            parts[#parts + 1] = part
        end
    end
    return (("/" .. table.concat(parts, "/")):gsub("[^%w%-._~/]", function(c) return string.format("%%%02X", c:byte()) end))
end

local function first(values)
    if values == nil then return nil end
    return values[0] or values[1]
end

local function ask(txn, url, failure)
    local path, host = clean(plain(txn.f:path()), max_path), txn.f:req_hdr("host")
    local headers = {
        ["x-forwarded-for"] = { txn.f:src() },
        ["x-forwarded-method"] = { clean(txn.f:method(), 32) },
        ["x-forwarded-uri"] = { path },
    }
    if host ~= nil and host ~= "" then headers["x-forwarded-host"] = { clean(host, 255) } end
    local sent, left = txn.http:req_get_headers(), max_bytes - #path
    for _, name in ipairs(named(url)) do
        local list = {}
        for i = 0, max_lines - 1 do
            local value = sent[name] and sent[name][i]
            if value ~= nil then
                value = clean(value, name == "cookie" and 4096 or max_value)
                left = left - #name - #value
                if left > 0 then list[#list + 1] = value end
            end
        end
        if #list > 0 and headers[name] == nil then headers[name] = list end
    end

    local answer = core.httpclient():get { url = url, headers = headers, timeout = 500 }
    local status = answer and answer.status or 0
    -- 429, 403 and 503 with a decision are Stint's; all else is a failure.
    local decision = answer and answer.headers and first(answer.headers["x-stint-decision"])
    if decision == nil then
        core.Warning("stint: no decision, status " .. tostring(status))
        local is_down = status == 0 or status >= 500
        txn:set_var("txn.stint_status", failure ~= "closed" and is_down and 200 or 503)
        return
    end
    txn:set_var("txn.stint_status", tonumber(first(answer.headers["x-stint-status"])) or status)
    txn:set_var("txn.stint_retry_after", first(answer.headers["retry-after"]) or "")
    txn:set_var("txn.stint_ratelimit", first(answer.headers["ratelimit"]) or "")
    txn:set_var("txn.stint_refusal_id", first(answer.headers["x-stint-refusal-id"]) or "")
end

core.register_action("stint", { "http-req" }, ask, 2)
