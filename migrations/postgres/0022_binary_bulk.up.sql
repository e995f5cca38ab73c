-- On SQLite, statements read their rows with jsonb_each, which gives each row in binary form:
-- json_each writes it as text, and every column would parse that text. This function has the
-- same name and does what json_each of 0008 does, which nodes of the release before call.
CREATE FUNCTION jsonb_each(rows TEXT) RETURNS TABLE (value JSONB)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 1000
    AS 'SELECT jsonb_array_elements(CAST(rows AS JSONB))';
