ALTER TABLE pending_logins DROP COLUMN address;
