package servers

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP relay to one server that ends with the test. It can delay what
// passes, cut connections and answer in place of the server, so that one of several nodes
// loses a server, has a slow way to it or finds something else there.
type Proxy struct {
	Addr string // host:port, where it listens

	target   string
	delay    atomic.Int64 // nanoseconds, each way
	messages atomic.Int64 // pieces that clients sent
	refused  atomic.Int64 // connections that came while it was cut
	cutAfter atomic.Int64 // pieces after which everything is cut; 0 for never
	answer   atomic.Pointer[string]

	mu   sync.Mutex
	cut  bool
	open map[net.Conn]struct{}
}

// NewProxy listens on a free port and relays to target, a host:port.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target, open: map[net.Conn]struct{}{}}
	t.Cleanup(p.Cut)
	p.Addr = Listen(t, p.relay)
	return p
}

// Delay delays each piece that passes by d each way; zero ends it.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Answer has each piece that the server sends replaced by text, until Relay.
func (p *Proxy) Answer(text string) { p.answer.Store(&text) }

// Relay ends what Answer began.
func (p *Proxy) Relay() { p.answer.Store(nil) }

// Cut closes all connections and accepts no new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.open {
		c.Close()
	}
}

// CutAfter cuts before the piece number n that a client sends from now on.
func (p *Proxy) CutAfter(n int64) {
	p.messages.Store(0)
	p.cutAfter.Store(n)
}

// Messages returns how many pieces clients have sent since CutAfter.
func (p *Proxy) Messages() int64 { return p.messages.Load() }

// Refused returns how many connections came while the proxy was cut.
func (p *Proxy) Refused() int64 { return p.refused.Load() }

// Join ends what Cut or CutAfter began.
func (p *Proxy) Join() {
	p.cutAfter.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *Proxy) relay(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.drop(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil || !p.add(server) {
		return
	}
	defer p.drop(server)
	done := make(chan struct{}, 2)
	go func() { p.copy(server, client, p.countMessage); done <- struct{}{} }()
	go func() { p.copy(client, server, p.replace); done <- struct{}{} }()
	<-done
}

// countMessage returns a piece that a client sent, nil to end.
func (p *Proxy) countMessage(data []byte) []byte {
	n, after := p.messages.Add(1), p.cutAfter.Load()
	if after > 0 && n >= after {
		p.Cut()
		return nil
	}
	return data
}

// replace returns what a client is sent in place of a piece of the server.
func (p *Proxy) replace(data []byte) []byte {
	if text := p.answer.Load(); text != nil {
		return []byte(*text)
	}
	return data
}

func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		p.refused.Add(1)
		c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// copy relays one way what pass makes of each piece, until either end is closed or that is nil.
func (p *Proxy) copy(to, from net.Conn, pass func([]byte) []byte) {
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for buffer := make([]byte, 64<<10); ; {
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{append([]byte(nil), buffer[:n]...), time.Now().Add(time.Duration(p.delay.Load()))}
			}
			if err != nil {
				return
			}
		}
	}()
	for x := range pieces {
		time.Sleep(time.Until(x.due))
		data := pass(x.data)
		if data == nil {
			break
		}
		if _, err := to.Write(data); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	for range pieces { // so that its reader ends
	}
}
