package api

// Headers that every answer of the check listener may have, spelled as fasthttp
// keeps them, so that setting one does not spell it anew; the two of
// draft-ietf-httpapi-ratelimit-headers-10 are spelled as the draft does.
var (
	requestIDHeader       = []byte("X-Request-Id")
	cacheControlHeader    = []byte("Cache-Control")
	retryAfterHeader      = []byte("Retry-After")
	rateLimitHeader       = []byte("RateLimit")
	rateLimitPolicyHeader = []byte("RateLimit-Policy")

	contentTypeOptionsHeader = []byte("X-Content-Type-Options")

	noStore = []byte("no-store")
	noSniff = []byte("nosniff")
)

// setHeader sets a header of the answer; value is copied.
func (c *Call) setHeader(name, value []byte) { c.Response().Header.SetCanonical(name, value) }
