-- The attacks that were announced. sources is JSON. At most one goes on at a time.
CREATE TABLE attacks (
    id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    began_at BIGINT NOT NULL,
    seen_at  BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    normal   DOUBLE PRECISION NOT NULL,
    peak     DOUBLE PRECISION NOT NULL,
    refused  BIGINT NOT NULL,
    sources  TEXT NOT NULL
);
CREATE UNIQUE INDEX attacks_open ON attacks (ended_at) WHERE ended_at = 0;
