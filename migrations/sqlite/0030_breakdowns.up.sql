-- What was requested: how many requests there were of each combination of path, agent, host and the
-- other dimensions (breakdown.Table), by minute and node, and of all nodes by hour and by day.
CREATE TABLE breakdowns (
    span  INTEGER NOT NULL,
    start INTEGER NOT NULL,
    node  TEXT NOT NULL,
    data  BLOB NOT NULL,
    PRIMARY KEY (span, start, node)
) STRICT, WITHOUT ROWID;
