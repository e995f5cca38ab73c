-- Notification channels that operators set up, beside those of the settings, and the
-- times in which nothing is sent. Nodes of the release before know nothing of them.
CREATE TABLE channels (
    name        TEXT COLLATE "C" PRIMARY KEY,
    type        TEXT NOT NULL,
    host        TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipients  TEXT NOT NULL,
    kinds       TEXT NOT NULL,
    urgent_only BIGINT NOT NULL,
    disabled    BIGINT NOT NULL,
    sealed      BYTEA NOT NULL,
    author      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    updated_by  TEXT NOT NULL,
    revision    BIGINT NOT NULL
);
CREATE TABLE silences (
    id         TEXT COLLATE "C" PRIMARY KEY,
    channel    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    author     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    until_at   BIGINT NOT NULL,
    revision   BIGINT NOT NULL
);
-- The revision of the last change of either: of what is deleted no row is left.
CREATE TABLE channels_changed (
    id       BIGINT PRIMARY KEY,
    revision BIGINT NOT NULL
);
INSERT INTO channels_changed (id, revision) VALUES (1, 0);
