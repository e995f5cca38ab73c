-- What entries were before their changes, so that a bouncer can be sent what has
-- changed since it last asked: the state that revision made and replaced ended.
CREATE TABLE entry_versions (
    entry_id   TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    replaced   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (entry_id, revision)
) STRICT;
CREATE INDEX entry_versions_replaced ON entry_versions (replaced);
CREATE INDEX entry_versions_expiry ON entry_versions (expires_at);

CREATE TRIGGER entries_keep_version AFTER UPDATE OF revision ON entries
WHEN OLD.revision <> NEW.revision
BEGIN
    INSERT OR IGNORE INTO entry_versions (entry_id, revision, replaced, expires_at, ended_at, reason)
    VALUES (OLD.id, OLD.revision, NEW.revision, OLD.expires_at, OLD.ended_at, OLD.reason);
END;

-- The programs that fetch the active blocks. Their cursor is the state that they were
-- sent last and the one before it.
CREATE TABLE bouncers (
    token_id        TEXT NOT NULL,
    address         TEXT NOT NULL,
    type            TEXT NOT NULL,
    version         TEXT NOT NULL,
    mode            TEXT NOT NULL,
    first_at        INTEGER NOT NULL,
    last_at         INTEGER NOT NULL,
    sent            INTEGER NOT NULL DEFAULT 0,
    cursor_revision INTEGER NOT NULL DEFAULT 0,
    cursor_at       INTEGER NOT NULL DEFAULT 0,
    before_revision INTEGER NOT NULL DEFAULT 0,
    before_at       INTEGER NOT NULL DEFAULT 0,
    full_at         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (token_id, address, type)
) STRICT;
CREATE INDEX bouncers_last ON bouncers (last_at);
