package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/socket"
)

// Fast path. Plain version: fasthttp, fiber and Server.handle, which the tests of
// internal/api compare with byte for byte. Benchmark: BenchmarkServed, 1.7 times as
// fast where a check is allowed or blocked and 1.4 times where it is limited, the least
// processor time of 15 alternating runs. BenchmarkServedForward: a gateway asks 1.16 times for
// each check, 0.96 times with the headers of a browser; by the plain version 0.55 and 0.45
// times, the medians of 150 alternating parts.
//
// A connection of the check listener answers the usual requests of the routes that have a
// FastHandler from the bytes that it has read, before fasthttp sees them. It does so only
// where one read brought whole requests of the form that fastRequest knows, and where nothing
// but a good answer is due: everything else, each problem and each refused token among it,
// goes on to the plain version as it came, before anything was decided.

// fastServer is what the connections of a listener share.
type fastServer struct {
	server *Server
	routes []fastRoute
	last   atomic.Pointer[second]
	closed atomic.Bool // the listener, and with it the server
}

// second is what the requests of one second share.
type second struct {
	unix    int64
	date    []byte // the header Date
	isDebug bool   // the logger wants every request
}

// CheckListener returns l, which FramingListener made, as one whose connections also answer
// the usual requests. It must serve CheckApp.
func (s *Server) CheckListener(l net.Listener) net.Listener {
	framing, is := l.(*listener)
	if f := newFastServer(s); f != nil && is {
		return &fastListener{framing, f}
	}
	return l
}

// newFastServer returns nil where no request is to be answered on the fast path: there is
// no route for it, or each request may begin a trace.
func newFastServer(s *Server) *fastServer {
	f := &fastServer{server: s}
	for i := range s.routes {
		if r := &s.routes[i]; r.Fast != nil && r.Listener == Checks {
			f.routes = append(f.routes, newFastRoute(r, s.hostsOf(r)))
		}
	}
	if len(f.routes) == 0 || s.o.Tracer != nil {
		return nil
	}
	return f
}

type fastListener struct {
	*listener
	shared *fastServer
}

// Accept waits for a connection.
func (l *fastListener) Accept() (net.Conn, error) {
	c, err := l.listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.shared.conn(c), nil
}

// Close closes the listener, and its connections that wait for a request after an answer of
// the fast path: fasthttp, which has not seen that answer, takes them for busy ones. The
// others leave their next request to the plain version, which ends them.
func (l *fastListener) Close() error {
	l.shared.closed.Store(true)
	err := l.listener.Close()
	for _, c := range l.open() {
		if c.fast.state.CompareAndSwap(connWaits, connClosed) {
			l.conns.Remove(c)
			_ = c.Conn.Close() // nobody waits for anything on it
		}
	}
	return err
}

// conn has a connection of FramingListener answer the usual requests.
func (f *fastServer) conn(c net.Conn) net.Conn {
	var inner *conn
	switch c := c.(type) {
	case *conn:
		inner = c
	case *tlsConn:
		inner = c.conn
	default:
		return c
	}
	inner.fast.shared, inner.fast.peer, inner.fast.socket = f, peerOf(c.RemoteAddr()), socket.Of(inner.Conn)
	return c
}

// answerAll appends the answers to the requests that p begins with, up to the first that
// is not for the fast path, and returns how many bytes of p they have. whole is false after
// a panic in or after the handler: the request may have been charged, and the plain version
// would charge it again, so that the connection is to be closed. A panic before is the plain
// version's, which fails at the request again, logs it and answers.
func (f *fastConn) answerAll(p []byte) (used int, whole bool) {
	whole = true
	defer func() {
		if cause := recover(); cause != nil && f.charging {
			whole = false
			f.shared.server.o.Logger.Error("panic in handler", "path", f.request.route.Path, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
		f.charging = false
	}()
	for used < len(p) {
		size := f.request.parse(f.shared.routes, p[used:])
		if size == 0 || !f.answer() {
			break
		}
		used += size
	}
	return used, whole
}

// answer appends the answer to f.request, or returns false if it is the plain version's.
func (f *fastConn) answer() bool {
	s, request, call := f.shared.server, &f.request, &f.call
	r := request.route
	f.read = time.Now()
	present := f.shared.secondOf(f.read)
	if present.isDebug {
		return false
	}
	call.begin(s, request, f.peer, f.read)
	var principal *identity.Token
	if s.o.CheckAuth {
		if principal = f.token(); principal == nil {
			return false
		}
	}
	if r.hosts != nil && principal == nil && !r.hosts.allows(request.host) {
		return false
	}
	if call.RequestID = request.id; call.RequestID == nil {
		call.RequestID = appendRequestID(f.id[:0])
	}
	f.charging = true
	if !r.Fast(call) {
		f.charging = false
		return false
	}
	if principal != nil {
		s.tokens.note(principal.ID, call.Now)
	}
	took := time.Since(f.read)
	if s.o.Observe != nil {
		f.answered = Answered{Route: r.Route, Status: call.Status, Outcome: call.Outcome, Read: f.read, Took: took, RequestID: call.RequestID}
		s.o.Observe(&f.answered)
	}
	if ctx := context.Background(); s.o.isSampled() && s.o.Logger.Enabled(ctx, slog.LevelInfo) {
		line := accessLine{
			route: r.Route, id: string(call.RequestID), path: r.Path, status: call.Status, took: took, address: call.ClientAddress(),
			outcome: call.Outcome, key: call.Key, policy: call.Policy,
		}
		if principal != nil {
			line.who = string(audit.Token) + ":" + principal.Name
		}
		line.write(ctx, s, slog.LevelInfo)
	}
	f.out = appendAnswer(f.out, present.date, call)
	f.charging = false
	return true
}

// token returns the token of the request if it gives access, nil if the plain version must
// say what is wrong.
func (f *fastConn) token() *identity.Token {
	secret, given := f.call.secret()
	credentials := f.shared.server.o.Credentials
	if !given || !credentials.Loaded() {
		return nil
	}
	token, found := credentials.TokenByHash(identity.HashSecret(secret))
	if !found || !token.ActiveAt(f.call.Now) {
		return nil
	}
	if holder := (Principal{Access: token.Scopes}); !holder.May(f.request.route.Access) {
		return nil
	}
	return token
}

// appendAnswer appends an answer as the plain version writes it.
func appendAnswer(b, date []byte, c *FastCall) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = appendNumber(b, c.Status)
	b = append(b, ' ')
	b = append(b, http.StatusText(c.Status)...)
	b = append(b, "\r\nDate: "...)
	b = append(b, date...)
	if c.ContentType != "" {
		b = append(b, "\r\nContent-Type: "...)
		b = append(b, c.ContentType...)
	}
	isHead := c.isHead()
	if len(c.Answer) > 0 || !isHead {
		b = append(b, "\r\nContent-Length: "...)
		b = appendNumber(b, len(c.Answer))
	}
	b = append(b, "\r\nX-Request-Id: "...)
	b = append(b, c.RequestID...)
	b = append(b, "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"...)
	b = append(b, c.Head...)
	b = append(b, "\r\n"...)
	if isHead {
		return b
	}
	return append(b, c.Answer...)
}

// secondOf returns what the requests of now share. A change of the logger's level is noticed
// in the next second.
func (f *fastServer) secondOf(now time.Time) *second {
	unix := now.Unix()
	if last := f.last.Load(); last != nil && last.unix == unix {
		return last
	}
	next := &second{unix, fasthttp.AppendHTTPDate(nil, now), f.server.o.Logger.Enabled(context.Background(), slog.LevelDebug)}
	f.last.Store(next)
	return next
}
