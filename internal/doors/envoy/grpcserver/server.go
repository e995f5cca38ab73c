// Package grpcserver serves gRPC over HTTP/2 connections. Calls of some unary methods that one
// read of a connection returned are answered together, and their responses are written
// together. All other calls go to an http.Handler, for example a *grpc.Server.
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
// same calls if they are not in the common form. Benchmark: BenchmarkStint/doors, the part
// doors of "make bench": Envoy's Rate Limit Service compared with envoyproxy/ratelimit.
//
// Frames and header compression are those of golang.org/x/net/http2. grpc-go's own transport
// needs a goroutine, a context and several wake-ups for each call. Here a connection has one
// reading goroutine, which wakes one other goroutine for everything that it has read.

// Options configure a Server. Answer, Plain and the limits are required.
type Options struct {
	// Methods are the paths of the methods that Answer handles.
	Methods []string
	// Metadata are the lower-case names of the call metadata that Answer reads.
	Metadata []string
	// Answer answers calls of one connection that were read together. It must call Finish for
	// each of them, in any order and from any goroutine.
	Answer func(calls []*Call)
	// MaxBatch bounds the calls that are answered together.
	MaxBatch int
	// MaxMessage bounds a message for Answer, in bytes. Plain gets longer ones.
	MaxMessage int
	// Plain answers all other calls.
	Plain http.Handler
	// SingleRequest are the paths of the methods of Plain that take one message. They, and
	// those of Methods, are called when the request is complete. Other methods read messages as
	// they arrive, and answer each or end.
	SingleRequest []string
	// LongLived are the paths of the methods of Plain whose calls last as long as the client
	// likes. They keep a connection neither in a full listener nor after its last call.
	LongLived []string
	TLS       *tls.Config // nil for none

	MaxHeaders    uint32 // bytes of a call's metadata
	MaxStreams    int    // concurrent calls on one connection
	HandshakeTime time.Duration
	// MaxAge is how long a connection is kept, varied by a tenth. Grace is how long its last
	// calls may take after that.
	MaxAge, Grace time.Duration
	// MinPing is how often a client may send a PING while it receives nothing.
	MinPing time.Duration
	// RequestTime bounds how long a request that must be complete may take to arrive. Exceeding
	// it is noticed after at most twice that time.
	RequestTime time.Duration
	// Conns holds the open connections and bounds their number; nil means no bound.
	Conns *connlimit.Set
}

// Server serves connections. It is safe for concurrent use.
type Server struct {
	o    Options
	work chan func()
	done chan struct{} // closed by Stop

	mu        sync.Mutex
	empty     sync.Cond // no connection is left
	conns     map[*conn]struct{}
	listeners []net.Listener
	stopped   bool

	buffered atomic.Int64 // the sum of conn.buffered
}

// workers is the number of goroutines that wait for work. Further work gets a new goroutine,
// whose stack has to grow first.
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

// Serve serves connections of l until Stop, and then returns nil.
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

// worker runs the functions passed to HandOver.
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

// HandOver makes another goroutine call do.
func (s *Server) HandOver(do func()) {
	select {
	case s.work <- do:
	default:
		go supervise.Do("grpc call", do)
	}
}

// Stop accepts no more connections and no more calls, and waits for the running calls, at most
// for within. It reports whether all of them ended.
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
		_ = l.Close() // it accepts no more connections
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

// closeAll closes all connections immediately.
func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.raw.Close() // the reading and writing goroutines end
	}
}

// add registers a connection. It returns false after Stop, and if there are too many.
func (s *Server) add(c *conn) bool {
	if !s.o.Conns.Add(heldConn{c}) {
		return false
	}
	s.mu.Lock()
	isStopped := s.stopped
	if !isStopped {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if isStopped {
		// Not with mu held: the set may be looking at a connection whose start waits for mu.
		s.o.Conns.Remove(heldConn{c})
	}
	return !isStopped
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
	return time.Duration(float64(s.o.MaxAge) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // not a secret
}
