-- Without actions a block that challenges would refuse: those are removed.
DELETE FROM entries WHERE action <> '';
ALTER TABLE entries DROP COLUMN action;
ALTER TABLE traffic DROP COLUMN challenged;
