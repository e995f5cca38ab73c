-- What the logs in the memory of a node take and may take, and what was forgotten for it.
ALTER TABLE nodes ADD COLUMN log_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN max_log_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN forgotten BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN forgotten_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN unkept BIGINT NOT NULL DEFAULT 0;
