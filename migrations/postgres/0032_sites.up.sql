-- What is known of the sites of which answers are reported, and what operators have said of it.
CREATE TABLE sites (
    host         TEXT COLLATE "C" PRIMARY KEY,
    own_paths    TEXT NOT NULL DEFAULT '[]',
    forgotten_at BIGINT NOT NULL DEFAULT 0,
    known        TEXT NOT NULL DEFAULT '{}',
    written_at   BIGINT NOT NULL
);
