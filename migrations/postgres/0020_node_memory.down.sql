ALTER TABLE nodes DROP COLUMN unkept;
ALTER TABLE nodes DROP COLUMN forgotten_at;
ALTER TABLE nodes DROP COLUMN forgotten;
ALTER TABLE nodes DROP COLUMN max_log_bytes;
ALTER TABLE nodes DROP COLUMN log_bytes;
