DELETE FROM offences WHERE span IN (2, 3) AND start >= (SELECT through FROM rollups WHERE rollups.span = offences.span);
DELETE FROM traffic WHERE span IN (2, 3) AND start >= (SELECT through FROM rollups WHERE rollups.span = traffic.span);
DELETE FROM key_traffic WHERE span IN (2, 3) AND start >= (SELECT through FROM rollups WHERE rollups.span = key_traffic.span);
DELETE FROM distinct_keys WHERE span IN (2, 3) AND start >= (SELECT through FROM rollups WHERE rollups.span = distinct_keys.span);
ALTER TABLE rollups DROP COLUMN part_through;
