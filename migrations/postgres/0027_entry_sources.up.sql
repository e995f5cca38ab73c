-- Who else holds an entry. The entry's own row is the part of the source that holds it longest,
-- so that everything that matches keys reads entries only; these are the parts of the others. An
-- entry without a row here has one source. source_name is '' for a source that is named after the
-- author, source_ref what the source called the pattern, '' for the pattern itself.
ALTER TABLE entries ADD COLUMN source_name TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE entries ADD COLUMN source_ref TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX entries_source ON entries (source_name) WHERE source_name <> '';
CREATE TABLE entry_sources (
    entry_id   TEXT COLLATE "C" NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    name       TEXT COLLATE "C" NOT NULL,
    ref        TEXT COLLATE "C" NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL,
    author     TEXT COLLATE "C" NOT NULL,
    source     TEXT NOT NULL,
    policy_id  BIGINT NOT NULL DEFAULT 0,
    level      BIGINT NOT NULL DEFAULT 0,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (entry_id, name, ref)
);
CREATE INDEX entry_sources_name ON entry_sources (name);

-- How many of the sampled checks were refused, empty for a node of the release before.
ALTER TABLE trace ADD COLUMN refused BYTEA NOT NULL DEFAULT '';
