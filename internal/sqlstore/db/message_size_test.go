package db_test

import (
	"context"
	"net/url"
	"runtime"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

// The header of a message of almost 1 GiB, the most that pgx accepts by default.
const hugeMessage = "D\x3f\xff\xff\x00"

func TestAnnouncedMessageLengthAllocatesNoMemory(t *testing.T) {
	place, err := url.Parse(servers.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := servers.NewProxy(t, place.Host)
	place.Host = proxy.Addr
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
	proxy.Answer(hugeMessage)
	for range 3 { // the connection that is open, and new ones
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := store.Ping(ctx); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v, want Unavailable", err)
		}
		cancel()
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d bytes were allocated for messages that were announced and not sent", grown)
	}
	proxy.Relay()
	if err := store.Ping(t.Context()); err != nil {
		t.Errorf("Ping afterwards: %v", err)
	}
}
