UPDATE settings SET value = '1' WHERE name = 'compatible_from';
ALTER TABLE job_runs ADD COLUMN asked BIGINT NOT NULL DEFAULT 0;
UPDATE job_runs SET asked = 1 WHERE triggered_by = 'operator';
ALTER TABLE job_runs DROP COLUMN triggered_by;
