package httpserver

import (
	"bytes"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// originalMethod is the user value that keeps the method of a request to a route that accepts
// every method.
const originalMethod = "stint-original-method"

// acceptAnyMethod reports whether a request is for a route that accepts every method. It then
// changes the method to GET, unless that is HEAD, because fiber routes only the methods that it
// knows.
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

// below reports whether path matches route, which may end with "/*".
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

// FromTrustedProxy reports whether the peer is a proxy whose headers are trusted.
func (c *Call) FromTrustedProxy() bool {
	return c.server.o.Clients().Proxies.Trusts(peerAddress(c.Ctx.Context()))
}

// CountedAddress returns the address by which the client is counted; see ClientAddresses.Counted.
func (c *Call) CountedAddress() netip.Addr {
	clients, rc := c.server.o.Clients(), c.Ctx.Context()
	return clients.Counted(peerAddress(rc), rc.Request.Header.PeekAll(clients.HeaderName()))
}

// LinesOf returns all lines of a header whose name is exactly this one but for its case: what a proxy sets
// in place of what its client sent. They must not be kept after the handler returns.
func (c *Call) LinesOf(name string) [][]byte { return c.Request().Header.PeekAll(name) }

// AppendLines appends all non-empty lines of a header as they were sent. It treats "-" and "_"
// in the name as equal: programs behind a gateway may do so. What it appends must not be kept
// after the handler returns.
func (c *Call) AppendLines(lines [][]byte, name string) [][]byte {
	return appendLines(&c.Request().Header, lines, name)
}

func appendLines(h *fasthttp.RequestHeader, lines [][]byte, name string) [][]byte {
	if value := h.Peek(fasthttp.HeaderContentLength); len(value) > 0 && IsSameHeader(fasthttp.HeaderContentLength, name) {
		return append(lines, value) // fasthttp adds it for methods that may have a body
	}
	for sent, value := range h.AllInOrder() {
		if len(value) > 0 && IsSameHeader(sent, name) {
			lines = append(lines, value)
		}
	}
	return lines
}

// IsSameHeader reports whether two header names are equal, ignoring case and treating "_" as
// "-", as CGI does.
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

// foldedName maps each byte of a header name to one spelling.
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
