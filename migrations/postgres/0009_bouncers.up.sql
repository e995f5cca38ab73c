-- What entries were before their changes, so that a bouncer can be sent what has
-- changed since it last asked: the state that revision made and replaced ended.
CREATE TABLE entry_versions (
    entry_id   TEXT COLLATE "C" NOT NULL,
    revision   BIGINT NOT NULL,
    replaced   BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (entry_id, revision)
);
CREATE INDEX entry_versions_replaced ON entry_versions (replaced);
CREATE INDEX entry_versions_expiry ON entry_versions (expires_at);

CREATE FUNCTION keep_entry_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entry_versions (entry_id, revision, replaced, expires_at, ended_at, reason)
    VALUES (OLD.id, OLD.revision, NEW.revision, OLD.expires_at, OLD.ended_at, OLD.reason)
    ON CONFLICT (entry_id, revision) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER entries_keep_version AFTER UPDATE OF revision ON entries
    FOR EACH ROW WHEN (OLD.revision <> NEW.revision) EXECUTE FUNCTION keep_entry_version();

-- The programs that fetch the active blocks. Their cursor is the state that they were
-- sent last and the one before it.
CREATE TABLE bouncers (
    token_id        TEXT COLLATE "C" NOT NULL,
    address         TEXT COLLATE "C" NOT NULL,
    type            TEXT COLLATE "C" NOT NULL,
    version         TEXT NOT NULL,
    mode            TEXT NOT NULL,
    first_at        BIGINT NOT NULL,
    last_at         BIGINT NOT NULL,
    sent            BIGINT NOT NULL DEFAULT 0,
    cursor_revision BIGINT NOT NULL DEFAULT 0,
    cursor_at       BIGINT NOT NULL DEFAULT 0,
    before_revision BIGINT NOT NULL DEFAULT 0,
    before_at       BIGINT NOT NULL DEFAULT 0,
    full_at         BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (token_id, address, type)
);
CREATE INDEX bouncers_last ON bouncers (last_at);
