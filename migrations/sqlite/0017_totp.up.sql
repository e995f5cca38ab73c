-- The second factor of users: the secret that their authenticator app shares, and the newest
-- step of 30 seconds whose code was accepted. A user without a row logs in by password alone.
-- The tables refer to users by id and not by a foreign key: a restore replaces table by table.
CREATE TABLE totp (
    user_id      TEXT PRIMARY KEY,
    secret       BLOB NOT NULL,
    confirmed_at INTEGER NOT NULL,
    last_step    INTEGER NOT NULL
) STRICT;

-- Secrets that were shown and not confirmed by a code yet, each for the session that asked.
CREATE TABLE totp_setups (
    user_id    TEXT PRIMARY KEY,
    session    BLOB NOT NULL,
    secret     BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Codes that work once, in the place of one of the app.
CREATE TABLE recovery_codes (
    user_id TEXT NOT NULL,
    hash    BLOB NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, hash)
) STRICT;

-- Logins whose password was right and whose code is awaited. They are no rows of sessions: nodes
-- of the release before would take those for whole ones.
CREATE TABLE pending_logins (
    hash       BLOB PRIMARY KEY,
    user_id    TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX pending_logins_user ON pending_logins (user_id);
