-- The known ids of a log: a sorted set with the name that ids_of returns. The score of an id
-- is the time of its reservation plus its cost in 1024ths. The score of EXPIRY, which is not
-- an id, is the time when Redis drops the set. That is later than necessary, so that most
-- requests need not change it; a request for which it is too early sets it again, and drops
-- the ids that are no longer known.

local EXPIRY, EXPIRY_MARGIN = '', ID_LIFETIME / 2

local function number(n) return format('%.0f', n) end

-- cancelled_name returns the name of the key that exists while it is known that a charge was cancelled.
local function cancelled_name(name, at, cost, id)
  local before, after = name:match('^(.-}:)(.*)$')
  return before .. 'c' .. number(at) .. '.' .. number(cost) .. '.' .. #id .. '.' .. id .. ':' .. after
end

local function ids_of(name) return (name:gsub('}:', '}:i', 1)) end

-- known_reservation returns the time of the reservation of an id and its cost, nil if the id
-- is not known; and the time when Redis drops the set, nil if there is none.
known_reservation = function(ids, id)
  local scores = call('ZMSCORE', ids, id, EXPIRY)
  local score, expires = scores[1] and tonumber(scores[1]), scores[2] and tonumber(scores[2])
  local reservation = score and floor(score)
  if not reservation or now >= reservation + ID_LIFETIME then return nil, nil, expires end
  return reservation, (score - reservation) * 1024, expires
end

-- add_id stores the reservation and the cost of an id. expires is the third result of
-- known_reservation. Only the costs of reservations are read again, and these fit.
add_id = function(ids, id, reservation, cost, expires)
  local known_until, score = reservation + ID_LIFETIME, format('%.17g', reservation + min(cost, 1023) / 1024)
  if expires and expires >= known_until then
    call('ZADD', ids, score, id)
    return
  end
  if expires then call('ZREMRANGEBYSCORE', ids, '-inf', number(now - ID_LIFETIME)) end
  local drops = number(known_until + EXPIRY_MARGIN)
  call('ZADD', ids, score, id, drops, EXPIRY)
  call('PEXPIREAT', ids, drops)
end

-- shift_ids shifts the known ids of a log like the log.
local function shift_ids(name, by)
  local ids = ids_of(name)
  local known = call('ZRANGE', ids, '0', '-1', 'WITHSCORES')
  for i = 1, #known, 2 do call('ZADD', ids, format('%.17g', known[i + 1] - by), known[i]) end
  -- The last score is that of EXPIRY.
  if #known > 0 then call('PEXPIREAT', ids, number(known[#known] - by)) end
end
