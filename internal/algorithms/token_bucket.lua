-- token_bucket: 1 the instant at which it was last looked at, 2 how much is missing
-- from its capacity then, in 1/window of a request.
return bucket
