-- The hash chain over the audit: one row for each record that it covers. It is
-- a table of its own because records are never changed, and because a node of
-- the release before writes records without it; the next change adds those.
CREATE TABLE audit_chain (
    id   BIGINT PRIMARY KEY,
    hash BYTEA NOT NULL
);

-- What the chain begins after: the last record that retention removed, and its
-- hash. An empty hash means that older records were written before the chain.
CREATE TABLE audit_anchor (
    id       BIGINT PRIMARY KEY CHECK (id = 1),
    entry_id BIGINT NOT NULL,
    hash     BYTEA NOT NULL
);
INSERT INTO audit_anchor (id, entry_id, hash) SELECT 1, coalesce(max(id), 0), '' FROM audit;

-- From where users have logged in lately. An address is the key by which it is
-- counted, so that an IPv6 client stands for its network.
CREATE TABLE known_logins (
    user_id  TEXT COLLATE "C" NOT NULL,
    address  TEXT COLLATE "C" NOT NULL,
    last_at  BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (user_id, address)
);
CREATE INDEX known_logins_revision ON known_logins (revision);

-- The ids of users that were deleted and of ended tokens that retention removed,
-- which no restored backup may bring back.
CREATE TABLE ended_credentials (
    id       TEXT COLLATE "C" PRIMARY KEY,
    revision BIGINT NOT NULL
);
CREATE INDEX ended_credentials_revision ON ended_credentials (revision);
CREATE INDEX users_revision ON users (revision);
