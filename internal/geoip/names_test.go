package geoip_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/geoip"
)

// records answers reverse lookups and counts them.
type records struct {
	names map[string]string
	asked atomic.Int64
}

func (r *records) LookupAddr(_ context.Context, address string) ([]string, error) {
	r.asked.Add(1)
	if address == "198.51.100.3" {
		return nil, errors.New("a failure")
	}
	if name := r.names[address]; name != "" {
		return []string{name}, nil
	}
	return nil, &net.DNSError{IsNotFound: true}
}

func TestNamesAreLookedUpOnceAndCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &records{names: map[string]string{"198.51.100.1": "Host.Example.", "198.51.100.2": "=cmd|'/c'.example.", "10.0.0.1": "inside.example."}}
		names := geoip.NewNames(dns, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		go names.Run(ctx)
		first := netip.MustParseAddr("198.51.100.1")
		if got := names.Known(first); got != "" {
			t.Errorf("Known before a lookup: got %q, want none", got)
		}
		for address, want := range map[string]string{"198.51.100.1": "host.example", "198.51.100.2": "", "198.51.100.3": "", "198.51.100.4": "", "10.0.0.1": "", "127.0.0.1": ""} {
			if got := names.Await(ctx, netip.MustParseAddr(address)); got != want {
				t.Errorf("%s: got %q, want %q", address, got, want)
			}
		}
		if got := names.Known(first); got != "host.example" || dns.asked.Load() != 4 {
			t.Errorf("Known: got %q after %d lookups, want host.example after 4", got, dns.asked.Load())
		}
		time.Sleep(11 * time.Minute) // a failure is asked again, and an answer is not
		names.Await(ctx, first)
		names.Await(ctx, netip.MustParseAddr("198.51.100.3"))
		if asked := dns.asked.Load(); asked != 5 {
			t.Errorf("got %d lookups, want 5", asked)
		}
		dns.names["198.51.100.1"] = "moved.example."
		time.Sleep(7 * time.Hour)
		if got := names.Await(ctx, first); got != "moved.example" {
			t.Errorf("Await after 7 hours: got %q, want the new name", got)
		}
		stop()
	})
	if (*geoip.Names)(nil).Known(netip.MustParseAddr("198.51.100.1")) != "" {
		t.Error("Known of nil Names returns a name")
	}
}
