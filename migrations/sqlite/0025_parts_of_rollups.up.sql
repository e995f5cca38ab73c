-- Minutes before part_through are in the rows of their hour and of their day, which are added up
-- in parts and complete at through. Only hours (span 2) have it, for both.
ALTER TABLE rollups ADD COLUMN part_through INTEGER NOT NULL DEFAULT 0;
