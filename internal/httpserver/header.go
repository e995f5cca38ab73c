package httpserver

// Headers of every response, in fasthttp's canonical form, so that setting one needs no
// conversion.
var (
	requestIDHeader          = []byte("X-Request-Id")
	cacheControlHeader       = []byte("Cache-Control")
	contentTypeOptionsHeader = []byte("X-Content-Type-Options")

	noStore = []byte("no-store")
	noSniff = []byte("nosniff")
)

// SetHeader sets a header of the response. name must be spelled as it is to be sent; value is
// copied.
func (c *Call) SetHeader(name, value []byte) { c.Response().Header.SetCanonical(name, value) }
