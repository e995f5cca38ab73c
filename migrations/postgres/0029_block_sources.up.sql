-- Lists that a node pulls again and again. Their rows are entries of the source "list" whose holder
-- is "list/" and the name. document and state are JSON, header is sealed.
CREATE TABLE block_sources (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    document   TEXT NOT NULL,
    header     BYTEA NOT NULL DEFAULT '',
    state      TEXT NOT NULL DEFAULT '{}',
    author     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revision   BIGINT NOT NULL
);
