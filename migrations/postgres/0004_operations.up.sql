-- Work that only one node may do is done by the node that holds its lease.
CREATE TABLE leases (
    name       TEXT COLLATE "C" PRIMARY KEY,
    holder     TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE TABLE job_runs (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job         TEXT COLLATE "C" NOT NULL,
    node        TEXT NOT NULL,
    due_at      BIGINT NOT NULL,
    started_at  BIGINT NOT NULL,
    finished_at BIGINT NOT NULL DEFAULT 0,
    result      TEXT NOT NULL DEFAULT '',
    problem     TEXT NOT NULL DEFAULT '',
    asked       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX job_runs_job ON job_runs (job, due_at);
CREATE INDEX job_runs_started ON job_runs (started_at);

-- The outbox: the notifications, and their deliveries on each channel.
CREATE TABLE notifications (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind    TEXT COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    subject TEXT NOT NULL,
    body    TEXT NOT NULL,
    facts   TEXT NOT NULL,
    page    BYTEA
);
CREATE INDEX notifications_at ON notifications (at);

CREATE TABLE deliveries (
    notification_id BIGINT NOT NULL REFERENCES notifications (id) ON DELETE CASCADE,
    channel         TEXT COLLATE "C" NOT NULL,
    kind            TEXT COLLATE "C" NOT NULL,
    attempts        BIGINT NOT NULL DEFAULT 0,
    next_at         BIGINT NOT NULL,
    sent_at         BIGINT NOT NULL DEFAULT 0,
    failed_at       BIGINT NOT NULL DEFAULT 0,
    problem         TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (notification_id, channel)
);
CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE sent_at = 0 AND failed_at = 0;
CREATE INDEX deliveries_sent ON deliveries (channel, kind, sent_at);
