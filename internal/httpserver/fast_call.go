package httpserver

import (
	"net/http"
	"net/netip"
	"time"
)

// FastHandler answers one request of its route, or returns false if the plain handler must,
// as it must for every error. Nothing may have been charged or counted then.
type FastHandler func(c *FastCall) bool

// FastCall is one request on the fast path. Neither it nor what it returns as bytes may be
// kept after the handler.
type FastCall struct {
	// Body is JSON, as the header says, of a route of one method, and empty of a route of
	// every method. Query is as it was sent, without "?"; only the latter have one.
	Body, Query []byte
	Now         time.Time // when it was read
	RequestID   []byte    // as Call.RequestID

	// What the handler answers: Head are further header lines, each with its CRLF.
	// ContentType is "" where Answer is empty.
	Status       int
	ContentType  string
	Head, Answer []byte
	// As in Call.
	Outcome, Key, Policy string

	server  *Server
	request *fastRequest
	peer    netip.Addr
	lines   [][]byte // working memory
}

// begin prepares c for a request.
func (c *FastCall) begin(s *Server, request *fastRequest, peer netip.Addr, now time.Time) {
	*c = FastCall{
		Body: request.body, Query: request.query, Now: now, Head: c.Head[:0], Answer: c.Answer[:0],
		server: s, request: request, peer: peer, lines: c.lines,
	}
	if !s.isRealTime {
		c.Now = s.o.Now()
	}
}

// Get returns the first line of a header, "" where there is none. Like the methods below, it
// is for routes of every method: of others' headers nothing is kept.
func (c *FastCall) Get(name string) string {
	for i := range c.request.headers {
		if line := &c.request.headers[i]; isNamed(line.name, name) {
			return string(line.value)
		}
	}
	return ""
}

// linesOf returns all lines of a header, until it is called again.
func (c *FastCall) linesOf(name string) [][]byte {
	c.lines = c.lines[:0]
	for i := range c.request.headers {
		if line := &c.request.headers[i]; isNamed(line.name, name) {
			c.lines = append(c.lines, line.value)
		}
	}
	return c.lines
}

// AppendLines appends all lines of a header, as AppendLines of a Call does.
func (c *FastCall) AppendLines(lines [][]byte, name string) [][]byte {
	for i := range c.request.headers {
		if line := &c.request.headers[i]; IsSameHeader(line.name, name) {
			lines = append(lines, line.value)
		}
	}
	return lines
}

// Path returns the path of the request.
func (c *FastCall) Path() string { return c.request.route.Path }

// Host returns the host that the request names.
func (c *FastCall) Host() string { return string(c.request.host) }

// OriginalMethod is as that of Call.
func (c *FastCall) OriginalMethod() string { return string(c.request.method) }

// ClientAddress is the Address of a Call.
func (c *FastCall) ClientAddress() netip.Addr {
	clients := c.server.o.Clients()
	if !clients.Proxies.trusts(c.peer) {
		return c.peer
	}
	return clients.From(c.peer, c.linesOf(clients.HeaderName()))
}

// FromTrustedProxy is as that of Call.
func (c *FastCall) FromTrustedProxy() bool { return c.server.o.Clients().Proxies.trusts(c.peer) }

// secret returns the token of the request.
func (c *FastCall) secret() (string, bool) {
	r := c.request.route.Route
	if !c.request.route.isForwarded() {
		return bearerOf(c.request.authorization)
	}
	return secretIn(c.linesOf(r.headerOfToken()), r)
}

// isHead reports whether the body of the answer is not sent.
func (c *FastCall) isHead() bool { return string(c.request.method) == http.MethodHead }
