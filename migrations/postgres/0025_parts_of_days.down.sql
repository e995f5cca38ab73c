DELETE FROM offences WHERE span = 3 AND start >= (SELECT through FROM rollups WHERE span = 3);
DELETE FROM traffic WHERE span = 3 AND start >= (SELECT through FROM rollups WHERE span = 3);
DELETE FROM key_traffic WHERE span = 3 AND start >= (SELECT through FROM rollups WHERE span = 3);
DELETE FROM distinct_keys WHERE span = 3 AND start >= (SELECT through FROM rollups WHERE span = 3);
ALTER TABLE rollups DROP COLUMN part_through;
