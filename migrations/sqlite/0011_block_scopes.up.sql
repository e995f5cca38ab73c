-- The scope of the checks that a block refuses, '' for every check. The place of an
-- active entry is its scope: a pattern has one active block for each.
ALTER TABLE entries ADD COLUMN scope TEXT NOT NULL DEFAULT '';
