-- Lists that a node pulls again and again. Their rows are entries of the source "list" whose holder
-- is "list/" and the name. document and state are JSON, header is sealed.
CREATE TABLE block_sources (
    name       TEXT NOT NULL PRIMARY KEY,
    document   TEXT NOT NULL,
    header     BLOB NOT NULL DEFAULT x'',
    state      TEXT NOT NULL DEFAULT '{}',
    author     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revision   INTEGER NOT NULL
) STRICT;
