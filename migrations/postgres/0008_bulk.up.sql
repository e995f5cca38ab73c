-- On SQLite, statements read their rows from one JSON parameter with json_each
-- and unhex. These functions have the same names, so that both databases run
-- the same text: json_each of a text returns the elements of a JSON array.
CREATE FUNCTION json_each(rows TEXT) RETURNS TABLE (value JSONB)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 1000
    AS 'SELECT jsonb_array_elements(CAST(rows AS JSONB))';
CREATE FUNCTION unhex(digits TEXT) RETURNS BYTEA
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT decode(digits, ''hex'')';

-- The first minute whose offences may still count for a key.
ALTER TABLE escalations ADD COLUMN counts_from BIGINT NOT NULL DEFAULT 0;

-- The number of events that a notification represents: those of a burst beyond
-- the first ones share one.
ALTER TABLE notifications ADD COLUMN happenings BIGINT NOT NULL DEFAULT 1;
