package httpserver

import (
	"net/http"
	"net/netip"
	"time"
)

// FastHandler answers one request of its route. It returns false if the plain handler must
// answer, as for every error; it must not have charged or counted anything then.
type FastHandler func(c *FastCall) bool

// FastCall is one request on the fast path. Neither it nor the bytes that it returns may be
// kept after the handler returns.
type FastCall struct {
	// Body is the JSON body on a route of one method, and empty on a route of every method.
	// Query is the query as it was sent, without "?", on a route of every method, and empty on
	// other routes.
	Body, Query []byte
	Now         time.Time // when the request was read
	RequestID   []byte    // see Call.RequestID

	// The response, set by the handler. Head are additional header lines, each with its CRLF.
	// ContentType is "" if Answer is empty.
	Status       int
	ContentType  string
	Head, Answer []byte
	// See Call.
	Outcome, Key, Policy string

	server  *Server
	caller  string // the name of its token
	request *fastRequest
	peer    netip.Addr
	lines   [][]byte // working memory
	// isTrusted says whether peer is a trusted proxy, once isAsked: doors ask it several times.
	isTrusted, isAsked bool
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

// Caller is Call.Caller.
func (c *FastCall) Caller() string { return c.caller }

// Get returns the first line of a header, "" if there is none. Like the methods below, it works
// only on routes of every method: the headers of other requests are not kept.
func (c *FastCall) Get(name string) string {
	for i := range c.request.headers {
		if line := &c.request.headers[i]; isNamed(line.name, name) {
			return string(line.value)
		}
	}
	return ""
}

// linesOf returns all lines of a header. The result is valid until the next call.
func (c *FastCall) linesOf(name string) [][]byte {
	c.lines = c.lines[:0]
	for i := range c.request.headers {
		if line := &c.request.headers[i]; isNamed(line.name, name) {
			c.lines = append(c.lines, line.value)
		}
	}
	return c.lines
}

// LinesOf is Call.LinesOf.
func (c *FastCall) LinesOf(name string) [][]byte { return c.linesOf(name) }

// AppendLines is Call.AppendLines.
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

// Param returns the parameter at the end of the path, on a route that has one.
func (c *FastCall) Param() string { return string(c.request.param) }

// Host returns the host named by the request.
func (c *FastCall) Host() string { return string(c.request.host) }

// OriginalMethod is Call.OriginalMethod.
func (c *FastCall) OriginalMethod() string { return string(c.request.method) }

// ClientAddress returns the client's address, as Call.Address.
func (c *FastCall) ClientAddress() netip.Addr {
	clients := c.server.o.Clients()
	if !clients.Proxies.Trusts(c.peer) {
		return c.peer
	}
	return clients.From(c.peer, c.linesOf(clients.HeaderName()))
}

// CountedAddress is Call.CountedAddress.
func (c *FastCall) CountedAddress() netip.Addr {
	clients := c.server.o.Clients()
	return clients.Counted(c.peer, c.linesOf(clients.HeaderName()))
}

// FromTrustedProxy is Call.FromTrustedProxy.
func (c *FastCall) FromTrustedProxy() bool {
	if !c.isAsked {
		c.isTrusted, c.isAsked = c.server.o.Clients().Proxies.Trusts(c.peer), true
	}
	return c.isTrusted
}

// secret returns the token of the request.
func (c *FastCall) secret() (string, bool) {
	r := c.request.route.Route
	if !c.request.route.isForwarded() {
		return bearerOf(c.request.authorization)
	}
	return secretIn(c.linesOf(r.headerOfToken()), r)
}

// isHead reports whether the response is sent without its body.
func (c *FastCall) isHead() bool { return string(c.request.method) == http.MethodHead }
