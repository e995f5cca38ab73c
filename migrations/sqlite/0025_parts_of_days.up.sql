-- Hours before part_through are in the rows of their day, which is added up hour by hour and is
-- complete at through. Only days have it.
ALTER TABLE rollups ADD COLUMN part_through INTEGER NOT NULL DEFAULT 0;
