-- The crawlers that the nodes have verified by DNS, each believed for a day.
CREATE TABLE verified_crawlers (
    address     TEXT COLLATE "C" PRIMARY KEY,
    operator    TEXT NOT NULL,
    name        TEXT NOT NULL,
    verified_at BIGINT NOT NULL,
    written_at  BIGINT NOT NULL
);
