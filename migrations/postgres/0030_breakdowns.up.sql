-- What was requested: how many requests there were of each combination of path, agent, host and the
-- other dimensions (breakdown.Table), by minute and node, and of all nodes by hour and by day.
CREATE TABLE breakdowns (
    span  SMALLINT NOT NULL,
    start BIGINT NOT NULL,
    node  TEXT COLLATE "C" NOT NULL,
    data  BYTEA NOT NULL,
    PRIMARY KEY (span, start, node)
);
