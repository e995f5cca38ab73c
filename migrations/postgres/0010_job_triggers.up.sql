-- What triggered a run is stored by its name. Nodes of the release before write the
-- column that this replaces, and so do not start any more.
ALTER TABLE job_runs ADD COLUMN triggered_by TEXT NOT NULL DEFAULT 'schedule';
UPDATE job_runs SET triggered_by = 'operator' WHERE asked <> 0;
ALTER TABLE job_runs DROP COLUMN asked;
UPDATE settings SET value = '10' WHERE name = 'compatible_from';
