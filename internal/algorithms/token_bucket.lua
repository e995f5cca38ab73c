-- token_bucket: 1 the time of the last update, 2 how much of the capacity was missing then, in
-- 1/window of a request.
return bucket
