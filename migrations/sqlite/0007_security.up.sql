-- The hash chain over the audit: one row for each record that it covers. It is
-- a separate table because records never change, and because a node of the
-- previous release writes records without hashes, which the next change adds.
CREATE TABLE audit_chain (
    id   INTEGER PRIMARY KEY,
    hash BLOB NOT NULL
) STRICT;

-- The start of the chain: the last record that retention removed, and its hash.
-- An empty hash means that the older records were written before the chain.
CREATE TABLE audit_anchor (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    entry_id INTEGER NOT NULL,
    hash     BLOB NOT NULL
) STRICT;
INSERT INTO audit_anchor (id, entry_id, hash) SELECT 1, coalesce(max(id), 0), x'' FROM audit;

-- The addresses from which users have logged in recently. An address is stored
-- as its key, so that an IPv6 client is stored as its network.
CREATE TABLE known_logins (
    user_id  TEXT NOT NULL,
    address  TEXT NOT NULL,
    last_at  INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (user_id, address)
) STRICT;
CREATE INDEX known_logins_revision ON known_logins (revision);

-- The ids of deleted users, and of ended tokens that retention removed, which no
-- restored backup may reactivate.
CREATE TABLE ended_credentials (
    id       TEXT PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;
CREATE INDEX ended_credentials_revision ON ended_credentials (revision);
CREATE INDEX users_revision ON users (revision);
