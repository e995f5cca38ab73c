package api

// Headers that an answer to a check may have, in the form that fasthttp sends
// without conversion; the two of draft-ietf-httpapi-ratelimit-headers-10 are spelled
// as in the draft.
var (
	retryAfterHeader      = []byte("Retry-After")
	rateLimitHeader       = []byte("RateLimit")
	rateLimitPolicyHeader = []byte("RateLimit-Policy")
)
