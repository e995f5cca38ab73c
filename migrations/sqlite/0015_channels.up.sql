-- Notification channels that operators set up, beside those of the settings, and the
-- times in which nothing is sent. Nodes of the release before know nothing of them.
CREATE TABLE channels (
    name        TEXT PRIMARY KEY,
    type        TEXT NOT NULL,
    host        TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipients  TEXT NOT NULL,
    kinds       TEXT NOT NULL,
    urgent_only INTEGER NOT NULL,
    disabled    INTEGER NOT NULL,
    sealed      BLOB NOT NULL,
    author      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    updated_by  TEXT NOT NULL,
    revision    INTEGER NOT NULL
) STRICT;
CREATE TABLE silences (
    id         TEXT PRIMARY KEY,
    channel    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    author     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    until_at   INTEGER NOT NULL,
    revision   INTEGER NOT NULL
) STRICT;
-- The revision of the last change of either: of what is deleted no row is left.
CREATE TABLE channels_changed (
    id       INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO channels_changed (id, revision) VALUES (1, 0);
