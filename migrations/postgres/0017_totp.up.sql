-- The second factor of users: the secret that their authenticator app shares, and the newest
-- step of 30 seconds whose code was accepted. A user without a row logs in by password alone.
-- The tables refer to users by id and not by a foreign key: a restore replaces table by table.
CREATE TABLE totp (
    user_id      TEXT COLLATE "C" PRIMARY KEY,
    secret       BYTEA NOT NULL,
    confirmed_at BIGINT NOT NULL,
    last_step    BIGINT NOT NULL
);

-- Secrets that were shown and not confirmed by a code yet, each for the session that asked.
CREATE TABLE totp_setups (
    user_id    TEXT COLLATE "C" PRIMARY KEY,
    session    BYTEA NOT NULL,
    secret     BYTEA NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Codes that work once, in the place of one of the app.
CREATE TABLE recovery_codes (
    user_id TEXT COLLATE "C" NOT NULL,
    hash    BYTEA NOT NULL,
    used_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, hash)
);

-- Logins whose password was right and whose code is awaited. They are no rows of sessions: nodes
-- of the release before would take those for whole ones.
CREATE TABLE pending_logins (
    hash       BYTEA PRIMARY KEY,
    user_id    TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL,
    attempts   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX pending_logins_user ON pending_logins (user_id);
