-- Asks Stint about a request. In haproxy.cfg:
--
--   global
--       lua-load /etc/haproxy/stint.lua
--   frontend web
--       http-request lua.stint http://127.0.0.1:8080/v1/forward?policy=website open
--
-- The first argument is the URL, the second is what happens while Stint cannot be
-- reached: "open" lets requests pass, "closed" refuses them with 503. What Stint
-- refuses to read, and what is too much to be sent (headers and cookies that the URL names,
-- and paths with %2F), are refused with 503 either way: a client could cause it. The variables
-- txn.stint_status (an integer, 200 for allowed), txn.stint_retry_after,
-- txn.stint_ratelimit, txn.stint_refusal_id and txn.stint_challenge hold the answer.
--
-- Where Stint runs with --forward-token-header, write the name before that:
--
--       setenv STINT_TOKEN_HEADER X-Gateway-Token
--
-- It needs HAProxy 2.5 or newer and nothing else.

local token_header = (os.getenv("STINT_TOKEN_HEADER") or "X-Stint-Token"):lower()

-- Of the client's headers only those are sent that Stint reads: some that it always does, and
-- those that the URL names, as by=header:X-Api-Key and sends=header:X-Client,cookie:cart do. So a client neither writes what only
-- this script may, as X-Forwarded-For, nor sends more than HAProxy's client or Stint takes.
-- What the URL names is sent whole or the request is refused: without it, or with a part of
-- it, Stint would count something else. Lengths are in bytes.
local max_path, max_host, max_agent, max_traceparent, max_value, max_accept, max_target = 8000, 255, 2048, 128, 4096, 256, 4096
-- Of all that is sent; HAProxy's client has 15 KiB with its usual buffer.
local max_bytes = 14000
-- Of the lines of all that is sent: HAProxy's client ends HAProxy if there are more than
-- tune.http.maxhdr, 101 unless configured.
local max_lines = 32

local function unescape(text)
    return (text:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
end

-- The headers that are sent whatever the URL names, and may be cut. It says which these are, so that
-- Stint takes no other for missing.
local max_always = {
    ["user-agent"] = max_agent, traceparent = max_traceparent, accept = max_accept, ["accept-language"] = max_accept,
    ["sec-fetch-mode"] = max_accept, ["sec-fetch-dest"] = max_accept, ["sec-fetch-site"] = max_accept,
}

-- Returns what a URL's query is about: headers, by their names with "-" for "_" since programs
-- may read either as the other, and cookies; and the URL that also says what is sent.
local names_of = {}
local function named(url)
    if names_of[url] == nil then
        local names = { headers = {}, cookies = { stint_pass = true } }
        for parameter, value in url:gmatch("[?&]([^=&]+)=([^&]*)") do
            parameter = unescape(parameter)
            for one in unescape(value):gmatch(parameter == "sends" and "[^,]+" or ".+") do
                local kind, name = one:match("^([%a-]+):(.+)$")
                if kind == "cookie" and (parameter == "by" or parameter == "sends") then
                    names.cookies[name] = true
                elseif name ~= nil and (parameter == "by" or parameter == "id" or parameter == "sends") then
                    names.headers[name:lower():gsub("_", "-")] = true
                end
            end
        end
        local sends = {}
        for name in pairs(max_always) do sends[#sends + 1] = "header:" .. name end
        for name in pairs(names.headers) do
            if max_always[name] == nil then sends[#sends + 1] = "header:" .. name end
        end
        for name in pairs(names.cookies) do sends[#sends + 1] = "cookie:" .. name end
        table.sort(sends)
        local asked = url:gsub("([?&])sends=[^&]*&?", "%1"):gsub("[?&]$", "")
        names.url = asked .. (asked:find("?", 1, true) and "&" or "?") .. "sends=" .. table.concat(sends, ",")
        names_of[url] = names
    end
    return names_of[url]
end

-- Matches what Stint refuses to read.
local unreadable = "[%z\1-\8\10-\31\127]"

-- Returns a text that Stint reads whatever the client wrote.
local function clean(text, most)
    return (text:sub(1, most or #text):gsub(unreadable, "?"))
end

local token = "[%w!#$%%&'*+.^_`|~-]"

-- Returns the name of a cookie, without what surrounds it: applications remove white space of any
-- kind, as Stint does. So a control character in a cookie is sent as a space. It is nil where there
-- is none. Each match takes a time in proportion to the length, whatever the client wrote: HAProxy
-- cannot interrupt one, and ends itself where it takes seconds.
local function name_of(cookie)
    local equals = cookie:find("=", 1, true)
    local rest = equals and cookie:sub(1, equals - 1):match(token .. ".*")
    return rest and rest:match("^.*" .. token)
end

-- Returns a path, once it is in its plain spelling where it is long, so that no padding of
-- slashes and dots hides what it leads to. It is nil where that is not known: programs differ
-- in whether %2F is a slash.
local function plain(path)
    if #path <= max_path then return path end
    if path:find("%%2[fF]") then return nil end
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

-- Returns the path that a request asks for. HAProxy knows none of a target without a slash, as
-- "http://shop.example" and "*" are, nor all of one that begins without, as "login/user" does.
local function path_of(txn)
    local target = txn.sf:url()
    if target:find("^/") or target:find("^%a[%w+.-]*://") then return txn.f:path() or "/" end
    return "/" .. target:match("^[^?]*")
end

local function first(values)
    if values == nil then return nil end
    return values[0] or values[1]
end

-- Returns all lines of a header of the request.
local function lines_of(sent, name)
    local lines = {}
    for i = 0, 1000 do
        local line = sent[name] and sent[name][i]
        if line == nil then break end
        lines[#lines + 1] = line
    end
    return lines
end

-- Returns the headers that the names are about, and nil instead where a value is too long.
local function chosen(sent, names)
    local headers = {}
    for name in pairs(sent) do
        -- Each by its own name: of the id, the target and the agent Stint reads the one of the very
        -- name, and counts by all others too.
        for _, line in ipairs(names.headers[(name:gsub("_", "-"))] and lines_of(sent, name) or {}) do
            if #line > max_value then return nil end
            headers[name] = headers[name] or {}
            table.insert(headers[name], clean(line))
        end
    end
    local cookies = {}
    for _, line in ipairs(next(names.cookies) and lines_of(sent, "cookie") or {}) do
        for cookie in line:gmatch("[^;]+") do
            local name = name_of(cookie)
            if name ~= nil and names.cookies[name] then
                if #cookie > max_value then return nil end
                cookies[#cookies + 1] = cookie:gsub(unreadable, " ")
            end
        end
    end
    if #cookies > 0 and headers.cookie == nil then headers.cookie = { table.concat(cookies, ";") } end
    return headers
end

-- Returns how many bytes and how many lines headers have.
local function size_of(headers)
    local bytes, count = 0, 0
    for name, lines in pairs(headers) do
        for _, line in ipairs(lines) do bytes, count = bytes + #name + #line + 4, count + 1 end
    end
    return bytes, count
end

-- HAProxy's client makes four attempts, so that it takes seconds to find out that Stint is down.
-- After so many requests in a row without an answer, one request asks after each pause, and all
-- others are decided at once. Times are in seconds.
local max_failures, pause, max_probe = 3, 1, 5
local failures, quiet_until = {}, {} -- by the URL

-- Returns whether a request is to ask.
local function may_ask(url)
    if (failures[url] or 0) < max_failures then return true end
    local now = core.now().sec
    if now < quiet_until[url] then return false end
    quiet_until[url] = now + max_probe -- until the answer to this request
    return true
end

-- Records whether a request that asked was answered.
local function record(url, is_answered)
    failures[url] = is_answered and 0 or (failures[url] or 0) + 1
    quiet_until[url] = core.now().sec + pause
end

-- The headers of pages and of what leads on from them.
local shown = {
    "content-type", "content-security-policy", "cache-control", "referrer-policy", "vary", "x-robots-tag", "x-content-type-options",
    "location", "set-cookie", "retry-after", "ratelimit", "ratelimit-policy", "x-stint-challenge",
}

-- Answers the client with a page of Stint's, or what leads on from one.
local function show(txn, answer)
    local reply = txn:reply()
    reply:set_status(answer.status, answer.reason)
    for _, name in ipairs(shown) do
        for _, line in ipairs(lines_of(answer.headers, name)) do reply:add_header(name, line) end
    end
    reply:set_body(answer.body or "")
    txn:done(reply)
end

local function ask(txn, url, failure)
    -- A script that fails is ended, and HAProxy goes on with what its configuration says about
    -- this variable: no request that would cause that may pass.
    txn:set_var("txn.stint_status", 503)
    txn:set_var("txn.stint_retry_after", "1")
    local sent, host = txn.http:req_get_headers(), txn.f:req_hdr("host")
    local headers, path = chosen(sent, named(url)), plain(path_of(txn))
    if headers ~= nil and path ~= nil then
        headers["x-forwarded-for"] = { txn.f:src() }
        headers["x-forwarded-method"] = { clean(txn.f:method(), 32) }
        -- Pages lead back to the target with its query, which is left out where both are long.
        local target = path .. "?" .. (txn.f:query() or "")
        if target == path .. "?" or #target > max_target then target = path end
        headers["x-forwarded-uri"] = { clean(target, max_path) }
        headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
        if host ~= nil and host ~= "" then headers["x-forwarded-host"] = { clean(host, max_host) } end
        local token = lines_of(sent, token_header)
        if #token > 0 then headers[token_header] = token end
        -- What the URL does not name may be cut.
        for name, most in pairs(max_always) do
            local lines = lines_of(sent, name)
            if #lines > 0 and headers[name] == nil then headers[name] = { clean(table.concat(lines, ", "), most) } end
        end
    end
    local bytes, count = size_of(headers or {})
    if headers == nil or path == nil or #named(url).url + bytes > max_bytes or count > max_lines then
        core.Info("stint: the path or what the URL names is too much to be sent")
        return
    end

    if not may_ask(url) then
        txn:set_var("txn.stint_status", failure ~= "closed" and 200 or 503)
        return
    end
    local answer = core.httpclient():get { url = named(url).url, headers = headers, timeout = 500 }
    local status = answer and answer.status or 0
    -- 429, 403 and 503 with a decision are Stint's; all else is a failure.
    local decision = answer and answer.headers and first(answer.headers["x-stint-decision"])
    local is_down = decision == nil and (status == 0 or status >= 500)
    -- Each answer of Stint has an id, those that HAProxy makes in its place have none.
    record(url, not is_down or answer ~= nil and answer.headers ~= nil and answer.headers["x-request-id"] ~= nil)
    if decision == nil then
        core.Warning("stint: no decision, status " .. tostring(status))
        txn:set_var("txn.stint_status", failure ~= "closed" and is_down and 200 or 503)
        return
    end
    txn:set_var("txn.stint_status", tonumber(first(answer.headers["x-stint-status"])) or status)
    txn:set_var("txn.stint_retry_after", first(answer.headers["retry-after"]) or "")
    txn:set_var("txn.stint_ratelimit", first(answer.headers["ratelimit"]) or "")
    txn:set_var("txn.stint_refusal_id", first(answer.headers["x-stint-refusal-id"]) or "")
    txn:set_var("txn.stint_challenge", first(answer.headers["x-stint-challenge"]) or "")
    if status == 303 or (first(answer.headers["content-type"]) or ""):find("^text/html") then show(txn, answer) end
end

core.register_action("stint", { "http-req" }, ask, 2)
