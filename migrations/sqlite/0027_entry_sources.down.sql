ALTER TABLE trace DROP COLUMN refused;
DROP TABLE entry_sources;
DROP INDEX entries_source;
ALTER TABLE entries DROP COLUMN source_ref;
ALTER TABLE entries DROP COLUMN source_name;
