-- The one row that every change locks and increments. seeded_at is 0 in a new
-- database.
CREATE TABLE revision (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    value     INTEGER NOT NULL,
    seeded_at INTEGER NOT NULL
) STRICT;
INSERT INTO revision (id, value, seeded_at) VALUES (1, 0, 0);

-- Settings that all nodes share.
CREATE TABLE settings (
    name     TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO settings (name, value, revision) VALUES ('compatible_from', '1', 0);

-- Rows of deleted policies are kept, so that no id is used twice and their
-- versions can be restored.
CREATE TABLE policies (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL DEFAULT 0,
    revision   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX policies_name ON policies (name) WHERE deleted_at = 0;

CREATE TABLE policy_versions (
    policy_id   INTEGER NOT NULL REFERENCES policies (id),
    version     INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    document    TEXT NOT NULL,
    author      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    replaced_at INTEGER NOT NULL DEFAULT 0,
    revision    INTEGER NOT NULL,
    PRIMARY KEY (policy_id, version)
) STRICT;
CREATE INDEX policy_versions_replaced ON policy_versions (replaced_at);

-- Blocks and exemptions. place is '' for the one row of a kind that holds its
-- pattern, and the row's own id once it has ended and given the pattern up.
CREATE TABLE entries (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL CHECK (kind IN ('block', 'exemption')),
    pattern    TEXT NOT NULL,
    place      TEXT NOT NULL DEFAULT '',
    low        BLOB,
    high       BLOB,
    reason     TEXT NOT NULL,
    author     TEXT NOT NULL,
    source     TEXT NOT NULL,
    policy_id  INTEGER NOT NULL DEFAULT 0,
    level      INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL DEFAULT 0,
    ended_by   TEXT NOT NULL DEFAULT '',
    revision   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX entries_pattern ON entries (pattern, kind, place);
CREATE INDEX entries_revision ON entries (revision);
CREATE INDEX entries_expiry ON entries (kind, expires_at, id);
CREATE INDEX entries_low ON entries (low) WHERE low IS NOT NULL;
-- Exemptions are few among many blocks.
CREATE INDEX entries_exemptions ON entries (id) WHERE kind = 'exemption';

CREATE TABLE audit (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    at            INTEGER NOT NULL,
    actor_kind    TEXT NOT NULL,
    actor_id      TEXT NOT NULL,
    actor_name    TEXT NOT NULL,
    actor_address TEXT NOT NULL,
    action        TEXT NOT NULL,
    object        TEXT NOT NULL,
    object_id     TEXT NOT NULL,
    summary       TEXT NOT NULL,
    before        TEXT NOT NULL DEFAULT '',
    after         TEXT NOT NULL DEFAULT '',
    revision      INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_object ON audit (object, object_id);

CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit records cannot be changed');
END;
