-- The notes of operators about a key.
CREATE TABLE notes (
    id         TEXT PRIMARY KEY,
    key        TEXT NOT NULL,
    text       TEXT NOT NULL,
    author     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX notes_key ON notes (key, id);
