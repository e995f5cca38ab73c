DROP TABLE bouncers;
DROP TRIGGER entries_keep_version;
DROP TABLE entry_versions;
