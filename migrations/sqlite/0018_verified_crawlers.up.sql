-- The crawlers that the nodes have verified by DNS, each believed for a day.
CREATE TABLE verified_crawlers (
    address     TEXT PRIMARY KEY,
    operator    TEXT NOT NULL,
    name        TEXT NOT NULL,
    verified_at INTEGER NOT NULL,
    written_at  INTEGER NOT NULL
) STRICT;
