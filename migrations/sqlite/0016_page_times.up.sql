-- The last change of the counts of a minute, an hour or a day, where one is known: rows of a
-- slot without a new mark are as they were, so that nodes can keep them in memory.
CREATE TABLE count_marks (
    span  INTEGER NOT NULL,
    start INTEGER NOT NULL,
    mark  TEXT NOT NULL,
    PRIMARY KEY (span, start)
) STRICT, WITHOUT ROWID;
-- Nodes of the release before leave no marks. While there are batches of theirs, no node
-- relies on marks.
ALTER TABLE flushed_batches ADD COLUMN marked INTEGER NOT NULL DEFAULT 0;
UPDATE flushed_batches SET marked = 1;
CREATE INDEX flushed_batches_unmarked ON flushed_batches (at) WHERE marked = 0;
-- The newest entries that are active, and the newest blocks of escalations among them.
CREATE INDEX entries_active ON entries (kind, id) WHERE place = scope;
CREATE INDEX entries_automatic ON entries (kind, source, id) WHERE source = 'automatic' AND place = scope;
-- What was made, and what was ended, in the time of a report.
CREATE INDEX entries_created ON entries (kind, created_at, source);
CREATE INDEX entries_ended ON entries (kind, ended_at) WHERE ended_at > 0;
