-- The first minute whose offences may still count for a key.
ALTER TABLE escalations ADD COLUMN counts_from INTEGER NOT NULL DEFAULT 0;

-- The number of events that a notification represents: those of a burst beyond
-- the first ones share one.
ALTER TABLE notifications ADD COLUMN happenings INTEGER NOT NULL DEFAULT 1;
