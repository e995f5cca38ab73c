-- The attacks that were announced. sources is JSON. At most one goes on at a time.
CREATE TABLE attacks (
    id       TEXT NOT NULL PRIMARY KEY,
    began_at INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL,
    ended_at INTEGER NOT NULL DEFAULT 0,
    normal   REAL NOT NULL,
    peak     REAL NOT NULL,
    refused  INTEGER NOT NULL,
    sources  TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX attacks_open ON attacks (ended_at) WHERE ended_at = 0;
