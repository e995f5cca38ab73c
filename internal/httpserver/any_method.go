package httpserver

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// originalMethod is where the method of a request is kept that a route for every
// method answers.
const originalMethod = "stint-original-method"

// acceptAnyMethod reports whether a request is for a route of every method. The
// request then becomes a GET, or stays a HEAD, because fiber routes only the
// methods that it knows.
func (s *Server) acceptAnyMethod(app *fiber.App, rc *fasthttp.RequestCtx) bool {
	if app != s.check || len(s.anyMethod) == 0 {
		return false
	}
	for _, r := range s.anyMethod {
		if !below(rc.Path(), r.Path) {
			continue
		}
		if method := rc.Method(); !rc.IsGet() && !rc.IsHead() {
			rc.SetUserValue(originalMethod, string(method))
			rc.Request.Header.SetMethod(http.MethodGet)
		}
		return true
	}
	return false
}

// below reports whether a path is that of a route, which may end with "/*".
func below(path []byte, route string) bool {
	prefix, open := strings.CutSuffix(route, "*")
	if open {
		return bytes.HasPrefix(path, []byte(prefix))
	}
	return string(path) == route
}

// OriginalMethod returns the method that the request was sent with.
func (c *Call) OriginalMethod() string {
	if method, kept := c.Ctx.Context().UserValue(originalMethod).(string); kept {
		return method
	}
	return c.Method()
}

// FromTrustedProxy reports whether the peer is a proxy whose headers are believed.
func (c *Call) FromTrustedProxy() bool {
	return c.server.o.Clients().Proxies.trusts(peerAddress(c.Ctx.Context()))
}

// AppendLines appends all lines of a header, of those that are not empty, as they were sent.
// "-" and "_" are the same in its name: programs behind a gateway may read either as the other.
// What is appended must not be kept after the handler.
func (c *Call) AppendLines(lines [][]byte, name string) [][]byte {
	return appendLines(&c.Request().Header, lines, name)
}

func appendLines(h *fasthttp.RequestHeader, lines [][]byte, name string) [][]byte {
	if value := h.Peek(fasthttp.HeaderContentLength); len(value) > 0 && IsSameHeader(fasthttp.HeaderContentLength, name) {
		return append(lines, value) // fasthttp adds it where a method has a body
	}
	for sent, value := range h.AllInOrder() {
		if len(value) > 0 && IsSameHeader(sent, name) {
			lines = append(lines, value)
		}
	}
	return lines
}

// IsSameHeader reports whether two names of headers are the same in whatever case, and with
// "_" for "-" as in CGI.
func IsSameHeader[A, B string | []byte](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if foldedName[a[i]] != foldedName[b[i]] {
			return false
		}
	}
	return true
}

// foldedName has each byte of a header's name in one spelling.
var foldedName = func() (folded [256]byte) {
	for i := range folded {
		folded[i] = byte(i)
		if c := byte(i); c >= 'A' && c <= 'Z' {
			folded[i] = c | 0x20
		}
	}
	folded['_'] = '-'
	return folded
}()
