-- Where a login that awaits its code was begun: logins from elsewhere do not push it out.
ALTER TABLE pending_logins ADD COLUMN address TEXT COLLATE "C" NOT NULL DEFAULT '';
