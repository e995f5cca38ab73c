-- What a block does to the checks that it matches: '' refuses them, 'challenge' those without a
-- pass. Nodes of the release before refuse both.
ALTER TABLE entries ADD COLUMN action TEXT NOT NULL DEFAULT '';
-- How many checks were challenged.
ALTER TABLE traffic ADD COLUMN challenged INTEGER NOT NULL DEFAULT 0;
