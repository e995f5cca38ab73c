DROP FUNCTION jsonb_each(TEXT);
