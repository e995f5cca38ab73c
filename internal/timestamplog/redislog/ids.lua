-- What is known of the ids of a log: a sorted set beside it, whose name ids_of
-- says. The score of an id is its reservation and, in 1024ths, its cost. The score of
-- EXPIRY, which is no id, is when Redis drops the set. Which is later than it must
-- be, so that most requests leave it at that; only one for which that is too
-- early sets it again, and drops the ids that are no longer known.

local EXPIRY, EXPIRY_MARGIN = '', ID_LIFETIME / 2

local function number(n) return format('%.0f', n) end

local function ids_of(name) return (name:gsub('}:', '}:i', 1)) end

-- known_reservation returns the reservation and the cost of an id, nil where it is not known,
-- and behind them when Redis drops the set, nil where there is none.
known_reservation = function(ids, id)
  local scores = call('ZMSCORE', ids, id, EXPIRY)
  local score, expires = scores[1] and tonumber(scores[1]), scores[2] and tonumber(scores[2])
  local reservation = score and floor(score)
  if not reservation or now >= reservation + ID_LIFETIME then return nil, nil, expires end
  return reservation, (score - reservation) * 1024, expires
end

-- add_id notes the reservation and the cost of an id. expires is as known_reservation
-- returned it. A larger cost than a reservation may have is never asked for again.
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

-- shift_ids moves what is known of ids along with their log.
local function shift_ids(name, by)
  local ids = ids_of(name)
  local known = call('ZRANGE', ids, '0', '-1', 'WITHSCORES')
  for i = 1, #known, 2 do call('ZADD', ids, format('%.17g', known[i + 1] - by), known[i]) end
  -- EXPIRY comes last.
  if #known > 0 then call('PEXPIREAT', ids, number(known[#known] - by)) end
end
