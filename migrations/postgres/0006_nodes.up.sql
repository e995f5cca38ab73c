-- The last heartbeat of each node.
CREATE TABLE nodes (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    version    TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    per_second DOUBLE PRECISION NOT NULL,
    p99_us     BIGINT NOT NULL,
    degraded   BIGINT NOT NULL,
    revision   BIGINT NOT NULL
);
