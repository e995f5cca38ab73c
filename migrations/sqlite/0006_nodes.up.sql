-- The last heartbeat of each node.
CREATE TABLE nodes (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    per_second REAL NOT NULL,
    p99_us     INTEGER NOT NULL,
    degraded   INTEGER NOT NULL,
    revision   INTEGER NOT NULL
) STRICT;
