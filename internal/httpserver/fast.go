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

// Fast path. Plain version: fasthttp, fiber and Server.handle; the tests of internal/api
// compare both byte for byte. Benchmark: BenchmarkServed, 1.7 times as fast if a check is
// allowed or blocked and 1.4 times if it is limited, the minimum processor time of 15
// alternating runs. BenchmarkServedForward: the ratio for the check of a gateway is 1.16, and
// 0.96 with the headers of a browser; the plain version has 0.55 and 0.45, medians of 150
// alternating parts.
//
// A connection of the check listener answers the common requests of the routes that have a
// FastHandler from the bytes that it has read, before fasthttp sees them. It does so only if
// one read returned whole requests in the form that fastRequest accepts, and only for
// successful responses. Everything else, including each problem and each refused token, goes
// unchanged to the plain version, before anything is decided.

// fastServer is the state that the connections of a listener share.
type fastServer struct {
	server *Server
	routes []fastRoute
	last   atomic.Pointer[second]
	closed atomic.Bool // the listener is closed, and so the server
}

// second is the state that the requests of one second share.
type second struct {
	unix    int64
	date    []byte // the header Date
	isDebug bool   // the logger logs every request
}

// CheckListener returns l, a result of FramingListener, as a listener whose connections also
// answer common requests. It must serve CheckApp.
func (s *Server) CheckListener(l net.Listener) net.Listener {
	framing, is := l.(*listener)
	if f := newFastServer(s); f != nil && is {
		return &fastListener{framing, f}
	}
	return l
}

// newFastServer returns nil if no request can use the fast path: no route has a FastHandler, or
// each request may begin a trace.
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

// Close closes the listener. On connections that are open the plain version answers the next
// request and then closes them.
func (l *fastListener) Close() error {
	l.shared.closed.Store(true)
	return l.listener.Close()
}

// conn makes a connection of FramingListener answer common requests.
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

// answerAll appends the responses to the requests at the start of p, up to the first request
// that is not for the fast path, and returns the bytes of p that were answered. whole is false
// after a panic in or after the handler: the request may have been charged, and the plain
// version would charge it again, so the connection must be closed. After an earlier panic, the
// plain version processes the request again, fails, logs and answers it. send sends what was
// appended so far, so that many requests in p do not make many responses wait.
func (f *fastConn) answerAll(p []byte, send func() error) (used int, whole bool, err error) {
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
		if len(f.out) > headerBytes {
			if err := send(); err != nil {
				return used, whole, err
			}
		}
	}
	return used, whole, nil
}

// answer appends the response to f.request, or returns false if the plain version must answer.
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
	if r.hosts != nil && principal == nil && !r.hosts().allows(request.host) {
		return false
	}
	if principal != nil {
		call.caller = principal.Name
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
// report the error.
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

// appendAnswer appends a response in the form of the plain version.
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

// secondOf returns the shared state of the second of now. A change of the logger's level takes
// effect in the next second.
func (f *fastServer) secondOf(now time.Time) *second {
	unix := now.Unix()
	if last := f.last.Load(); last != nil && last.unix == unix {
		return last
	}
	next := &second{unix, fasthttp.AppendHTTPDate(nil, now), f.server.o.Logger.Enabled(context.Background(), slog.LevelDebug)}
	f.last.Store(next)
	return next
}
