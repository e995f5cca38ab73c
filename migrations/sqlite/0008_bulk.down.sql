ALTER TABLE ladders DROP COLUMN counts_from;
ALTER TABLE notifications DROP COLUMN happenings;
