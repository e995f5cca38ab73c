ALTER TABLE escalations DROP COLUMN counts_from;
ALTER TABLE notifications DROP COLUMN happenings;
DROP FUNCTION unhex(TEXT);
DROP FUNCTION json_each(TEXT);
