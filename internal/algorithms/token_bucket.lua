-- token_bucket: 1 the time of the last update, 2 how much of the capacity was missing then, in 1/window of a
-- request; of amounts 2 whole units and 3 the rest in 1/window of one.
return bucket
