package connlimit

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// script is a listener that answers Accept with one error after the other, and then with a
// connection each.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	if len(s.errs) == 0 {
		here, _ := net.Pipe()
		return here, nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, err
}
func (s *script) Close() error   { return nil }
func (s *script) Addr() net.Addr { return &net.TCPAddr{Port: 80} }

func failure(cause syscall.Errno) error {
	return &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", cause)}
}

func TestAcceptRetriesWhileOutOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		inner := &script{}
		for range 20 {
			inner.errs = append(inner.errs, failure(syscall.EMFILE))
		}
		inner.errs = append(inner.errs, failure(syscall.ECONNABORTED), failure(syscall.ENOMEM))
		l := Listener(inner, slog.New(slog.NewTextHandler(&logged, nil)))
		began := time.Now()
		c, err := l.Accept()
		if err != nil || c == nil {
			t.Fatalf("got %v", err)
		}
		// The time is the test's own.
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("Accept waited %s, want 10 s to 20 s", took)
		}
		if lines := strings.Count(logged.String(), "\n"); lines != 1 || !strings.Contains(logged.String(), "too many open files") {
			t.Errorf("Accept logged %d lines:\n%s", lines, &logged)
		}
	})
}

func TestAcceptEndsWhenTheListenerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &script{errs: make([]error, 1000)}
		for i := range inner.errs {
			inner.errs[i] = failure(syscall.EMFILE)
		}
		l := Listener(inner, slog.New(slog.DiscardHandler))
		ended := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		synctest.Wait()
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	broken := failure(syscall.EBADF)
	if _, err := Listener(&script{errs: []error{broken}}, slog.New(slog.DiscardHandler)).Accept(); !errors.Is(err, broken) {
		t.Errorf("Accept with a permanent error: got %v", err)
	}
}

type fake struct {
	does Activity
	used bool
	cut  bool
}

func (f *fake) Activity() Activity { return f.does }
func (f *fake) TakeUsed() bool     { used := f.used; f.used = false; return used }
func (f *fake) Cut()               { f.cut = true }

func TestFullSetClosesTheLeastUsedConnection(t *testing.T) {
	answered, idle, sends := func() *fake { return &fake{does: Answering} }, func() *fake { return &fake{does: Idle} }, func() *fake { return &fake{does: AwaitingClient} }
	used := func(f *fake) *fake { f.used = true; return f }
	for name, test := range map[string]struct {
		open []*fake
		cut  int // index in open, -1 for the new one
	}{
		"one that was never used":               {[]*fake{answered(), used(idle()), idle(), sends()}, 2},
		"one that sends slowly":                 {[]*fake{answered(), used(idle()), sends(), used(sends())}, 2},
		"one that sends, not a new one":         {[]*fake{answered(), {does: Starting}, sends(), used(idle())}, 2},
		"a new one, not one in use":             {[]*fake{answered(), used(sends()), {does: Starting}, used(idle())}, 2},
		"one that was used before":              {[]*fake{answered(), used(idle()), used(sends())}, 1},
		"one that sends a later request slowly": {[]*fake{answered(), used(sends())}, 1},
		"the new one":                           {[]*fake{answered(), used(answered())}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSet(len(test.open))
			for _, c := range test.open {
				if !s.Add(c) {
					t.Fatal("Add below the limit returned false")
				}
			}
			fresh := idle()
			if took := s.Add(fresh); took != (test.cut >= 0) {
				t.Errorf("Add beyond the limit returned %v", took)
			}
			for i, c := range test.open {
				if c.cut != (i == test.cut) {
					t.Errorf("connection %d: closed is %v", i, c.cut)
				}
			}
			if got := s.Stats(); got != (Stats{len(test.open), len(test.open), 1}) {
				t.Errorf("Stats: got %+v", got)
			}
			s.Remove(fresh)
			s.Remove(fresh)
			if got, want := s.Stats().Open, len(test.open)-min(1, test.cut+1); got != want {
				t.Errorf("%d connections are open, want %d", got, want)
			}
		})
	}
	s := NewSet(0)
	for range 2 {
		s.Add(idle())
	}
	if len(s.All()) != 2 {
		t.Error("NewSet(0) must not limit the number")
	}
}

// TestUsedConnectionSurvivesAFlood uses one connection between any two of a flood.
func TestUsedConnectionSurvivesAFlood(t *testing.T) {
	s := NewSet(50)
	regular := &fake{does: Idle}
	s.Add(regular)
	for range 10_000 {
		regular.used = true
		s.Add(&fake{does: Idle})
	}
	if regular.cut {
		t.Error("the used connection was closed")
	}
}
