package httpserver

// Headers of every answer, in the canonical form of fasthttp, so that setting one
// needs no conversion.
var (
	requestIDHeader          = []byte("X-Request-Id")
	cacheControlHeader       = []byte("Cache-Control")
	contentTypeOptionsHeader = []byte("X-Content-Type-Options")

	noStore = []byte("no-store")
	noSniff = []byte("nosniff")
)

// SetHeader sets a header of the answer; name must be in the spelling that is to
// be sent, value is copied.
func (c *Call) SetHeader(name, value []byte) { c.Response().Header.SetCanonical(name, value) }
