// Package grpcserver serves gRPC over HTTP/2 connections. Calls of a few unary methods are
// answered together, as many as one read of a connection brought, and their answers are
// written together. Every other call goes to an http.Handler, which *grpc.Server is.
package grpcserver

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/supervise"
)

// Fast path. Plain version: Options.Plain, grpc-go behind an http.Handler, which answers the
// same calls where they are not of the usual form. Benchmark: BenchmarkStint/doors, the part
// doors of "make bench": Envoy's Rate Limit Service beside envoyproxy/ratelimit.
//
// The frames and the header compression are those of golang.org/x/net/http2. What grpc-go's
// own transport costs is a goroutine, a context and several wakings for each call; here a
// connection has one goroutine that reads, and wakes one other for all that it has read.

// Options make a Server. Answer, Plain and the bounds are required.
type Options struct {
	// Methods are the paths of the methods that Answer answers.
	Methods []string
	// Metadata are the names, in lower case, of the metadata of these calls that Answer reads.
	Metadata []string
	// Answer answers calls of one connection that were read together. It calls Finish for
	// each of them, in any order and from any goroutine.
	Answer func(calls []*Call)
	// MaxBatch is how many calls are answered together at most.
	MaxBatch int
	// MaxMessage is how many bytes a message may have that Answer is given. Plain refuses a
	// longer one, or answers it.
	MaxMessage int
	// Plain answers everything else.
	Plain http.Handler
	// SingleRequest are the paths of the methods of Plain that take one message. As those of Methods,
	// they are called when the request is whole. Other methods read messages as they come; they
	// answer each, or end.
	SingleRequest []string
	TLS           *tls.Config // nil for none

	MaxHeaders    uint32 // bytes of a call's metadata
	MaxStreams    int    // calls under way on one connection
	HandshakeTime time.Duration
	// MaxAge is how long a connection is kept, spread by a tenth, and Grace how long its last
	// calls may take after that.
	MaxAge, Grace time.Duration
	// MinPing is how often a client may send a PING while it is sent nothing.
	MinPing time.Duration
	// RequestTime is how long a request may take to come that must be whole; it may be twice
	// as long until it is noticed.
	RequestTime time.Duration
	// Conns are the open connections, which it bounds; nil means any number.
	Conns *connlimit.Set
}

// Server serves connections. It is safe for concurrent use.
type Server struct {
	o    Options
	work chan func()
	done chan struct{} // closed when it stops

	mu        sync.Mutex
	empty     sync.Cond // no connection is left
	conns     map[*conn]struct{}
	listeners []net.Listener
	stopped   bool

	buffered atomic.Int64 // the sum of conn.buffered
}

// workers are the goroutines that wait for work. What comes beyond them has a goroutine of
// its own, whose stack has to grow first.
const workers = 64

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{http2.NextProtoTLS}
	}
	if o.Conns == nil {
		o.Conns = connlimit.NewSet(0)
	}
	s := &Server{o: o, work: make(chan func()), done: make(chan struct{}), conns: map[*conn]struct{}{}}
	s.empty.L = &s.mu
	return s
}

// Serve answers on l until Stop, and returns nil after it.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return l.Close()
	}
	if len(s.listeners) == 0 {
		for range workers {
			go supervise.Run(context.Background(), "grpc worker", func(context.Context) { s.worker() })
		}
	}
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	for {
		c, err := l.Accept()
		if err != nil && s.isStopped() {
			return nil
		}
		if err != nil {
			return err
		}
		go supervise.Do("grpc connection", func() { s.serveConn(c) })
	}
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// worker does what HandOver is given.
func (s *Server) worker() {
	for {
		select {
		case do := <-s.work:
			supervise.Do("grpc call", do)
		case <-s.done:
			return
		}
	}
}

// HandOver has another goroutine call do.
func (s *Server) HandOver(do func()) {
	select {
	case s.work <- do:
	default:
		go supervise.Do("grpc call", do)
	}
}

// Stop accepts no more connections and no more calls, and waits for those under way, for at
// most the time given. It reports whether all of them ended.
func (s *Server) Stop(within time.Duration) bool {
	s.mu.Lock()
	isFirst := !s.stopped
	s.stopped = true
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close() // it accepts nothing any more
	}
	cut := time.AfterFunc(within, func() { supervise.Do("grpc stop", s.closeAll) })
	for _, c := range open {
		c.drain("graceful_stop")
	}
	s.mu.Lock()
	for len(s.conns) > 0 {
		s.empty.Wait()
	}
	s.mu.Unlock()
	if isFirst {
		close(s.done)
	}
	return cut.Stop()
}

// closeAll closes all connections as they are.
func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.raw.Close() // the goroutines that read or write end
	}
}

// add notes a connection, false after Stop and where there are too many.
func (s *Server) add(c *conn) bool {
	if !s.o.Conns.Add(heldConn{c}) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		s.o.Conns.Remove(heldConn{c})
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.o.Conns.Remove(heldConn{c})
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.conns, c); len(s.conns) == 0 {
		s.empty.Broadcast()
	}
}

// age returns how long a connection is kept.
func (s *Server) age() time.Duration {
	return time.Duration(float64(s.o.MaxAge) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // no secret
}
