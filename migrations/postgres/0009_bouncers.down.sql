DROP TABLE bouncers;
DROP TRIGGER entries_keep_version ON entries;
DROP FUNCTION keep_entry_version;
DROP TABLE entry_versions;
