package sqlstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// A connection is tried every second, and an outage lasts hours.
func TestAnOutageOfNotificationsIsLoggedOnceAndItsEnd(t *testing.T) {
	f := storetest.OpenPostgres(t)
	target, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	way := servers.NewProxy(t, target.Host)
	target.Host = way.Addr
	var logged lockedBuffer
	s, err := sqlstore.New(target.String(), sqlstore.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		s.Listen(ctx, func() { woken <- struct{}{} })
	}()
	<-woken
	way.Cut()
	time.Sleep(2500 * time.Millisecond) // several attempts
	way.Join()
	<-woken
	stop()
	<-done
	if lost, found := logged.count("polling goes on"), logged.count("arrive again"); lost != 1 || found != 1 {
		t.Errorf("one outage is logged %d times, its end %d times", lost, found)
	}
}
