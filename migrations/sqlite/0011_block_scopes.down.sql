-- Without scopes a block would refuse every check: those with one are removed.
DELETE FROM entries WHERE scope <> '';
ALTER TABLE entries DROP COLUMN scope;
