ALTER TABLE escalations DROP COLUMN counts_from;
ALTER TABLE notifications DROP COLUMN happenings;
