DROP INDEX entries_ended;
DROP INDEX entries_created;
DROP INDEX entries_automatic;
DROP INDEX entries_active;
DROP INDEX flushed_batches_unmarked;
ALTER TABLE flushed_batches DROP COLUMN marked;
DROP TABLE count_marks;
