-- The notes of operators about a key.
CREATE TABLE notes (
    id         TEXT COLLATE "C" PRIMARY KEY,
    key        TEXT COLLATE "C" NOT NULL,
    text       TEXT NOT NULL,
    author     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX notes_key ON notes (key, id);
