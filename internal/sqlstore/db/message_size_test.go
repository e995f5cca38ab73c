package db_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

// The head of a message of almost a GiB, the most that pgx takes by itself.
const hugeMessage = "D\x3f\xff\xff\x00"

// hugeMessages relays to a Postgres until huge is set, and from then on answers huge messages.
func hugeMessages(t *testing.T, target string, huge *atomic.Bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	relay := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer server.Close()
		go func() { _, _ = io.Copy(server, client); server.Close() }()
		piece := make([]byte, 64<<10)
		for {
			n, err := server.Read(piece)
			if err != nil {
				return
			}
			if huge.Load() {
				n = copy(piece, hugeMessage)
			}
			if _, err := client.Write(piece[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client)
		}
	}()
	return l.Addr().String()
}

func TestALengthThatIsAnnouncedTakesNoMemory(t *testing.T) {
	place, err := url.Parse(servers.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	var huge atomic.Bool
	place.Host = hugeMessages(t, place.Host, &huge)
	store, err := db.Open(place.String(), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	huge.Store(true)
	for range 3 { // the connection that is open, and new ones
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := store.Ping(ctx); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v, want that the database is unavailable", err)
		}
		cancel()
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d bytes were taken for messages that never came", grown)
	}
	huge.Store(false)
	if err := store.Ping(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
