-- What the keys of the traffic sample asked for, empty for a node of the release before.
ALTER TABLE trace ADD COLUMN paths BLOB NOT NULL DEFAULT x'';
