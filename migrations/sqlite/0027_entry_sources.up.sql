-- Who else holds an entry. The entry's own row is the part of the source that holds it longest,
-- so that everything that matches keys reads entries only; these are the parts of the others. An
-- entry without a row here has one source. source_name is '' for a source that is named after the
-- author, source_ref what the source called the pattern, '' for the pattern itself.
ALTER TABLE entries ADD COLUMN source_name TEXT NOT NULL DEFAULT '';
ALTER TABLE entries ADD COLUMN source_ref TEXT NOT NULL DEFAULT '';
CREATE INDEX entries_source ON entries (source_name) WHERE source_name <> '';
CREATE TABLE entry_sources (
    entry_id   TEXT NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    ref        TEXT NOT NULL,
    reason     TEXT NOT NULL,
    author     TEXT NOT NULL,
    source     TEXT NOT NULL,
    policy_id  INTEGER NOT NULL DEFAULT 0,
    level      INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (entry_id, name, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_sources_name ON entry_sources (name);

-- How many of the sampled checks were refused, empty for a node of the release before.
ALTER TABLE trace ADD COLUMN refused BLOB NOT NULL DEFAULT x'';
