-- Work that only one node may do is done by the node that holds its lease.
CREATE TABLE leases (
    name       TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE job_runs (
    id          INTEGER PRIMARY KEY,
    job         TEXT NOT NULL,
    node        TEXT NOT NULL,
    due_at      INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL DEFAULT 0,
    result      TEXT NOT NULL DEFAULT '',
    problem     TEXT NOT NULL DEFAULT '',
    asked       INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX job_runs_job ON job_runs (job, due_at);
CREATE INDEX job_runs_started ON job_runs (started_at);

-- The outbox: the notifications, and their deliveries on each channel.
CREATE TABLE notifications (
    id      INTEGER PRIMARY KEY,
    kind    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    subject TEXT NOT NULL,
    body    TEXT NOT NULL,
    facts   TEXT NOT NULL,
    page    BLOB
) STRICT;
CREATE INDEX notifications_at ON notifications (at);

CREATE TABLE deliveries (
    notification_id INTEGER NOT NULL REFERENCES notifications (id) ON DELETE CASCADE,
    channel         TEXT NOT NULL,
    kind            TEXT NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_at         INTEGER NOT NULL,
    sent_at         INTEGER NOT NULL DEFAULT 0,
    failed_at       INTEGER NOT NULL DEFAULT 0,
    problem         TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (notification_id, channel)
) STRICT;
CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE sent_at = 0 AND failed_at = 0;
CREATE INDEX deliveries_sent ON deliveries (channel, kind, sent_at);
