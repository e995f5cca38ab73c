ALTER TABLE escalation_events DROP COLUMN counted_as;
DROP TABLE safety_units;
