package connlimit

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// How long Accept waits after a connection could not be accepted, each time twice as long.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// logInterval is how often a failure to accept is logged at most.
const logInterval = time.Minute

// Listener returns l as one whose Accept waits where the system is short of descriptors or
// memory, or a client has gone, until the next connection can be accepted: servers take
// every error of Accept for the end of the listener. It is logged at most once a minute.
func Listener(l net.Listener, log *slog.Logger) net.Listener {
	return &listener{Listener: l, log: log, closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	log    *slog.Logger
	logged time.Time // of the goroutine that accepts
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		c, err := l.Listener.Accept()
		if err == nil || !isPassing(err) {
			return c, err
		}
		if !errors.Is(err, syscall.ECONNABORTED) && time.Since(l.logged) >= logInterval {
			l.logged = time.Now()
			l.log.Error("connections cannot be accepted and wait", "listener", l.Addr().String(), "error", err.Error())
		}
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// isPassing reports whether accepting may succeed later.
func isPassing(err error) bool {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// Close closes the listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
