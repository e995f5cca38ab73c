package firewall

import (
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
)

// A server that loses its power says nothing on the connections that it had. Where no caller has a
// deadline, as in jobs and heartbeats, only the kernel gives them up.
func TestVanishedPostgresEndsCallsWithoutDeadline(t *testing.T) {
	needNamespace(t)
	server := servers.DedicatedPostgres(t)
	store, err := sqlstore.Open(t.Context(), server.URL, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	nft := func(args ...string) {
		t.Helper()
		if text, err := exec.Command("nft", args...).CombinedOutput(); err != nil {
			t.Fatalf("nft %v: %v: %s", args, err, text)
		}
	}
	nft("add", "table", "ip", "vanished")
	t.Cleanup(func() { nft("delete", "table", "ip", "vanished") })
	nft("add", "chain", "ip", "vanished", "input", "{ type filter hook input priority 0; }")
	nft("add", "rule", "ip", "vanished", "input", "tcp", "dport", port, "drop")

	called := make(chan error, 1)
	go func() {
		_, err := store.FindNodes(context.WithoutCancel(t.Context()), time.Time{})
		called <- err
	}()
	select {
	case err := <-called:
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v, want an Unavailable fault", err)
		}
	case <-time.After(maxWait):
		t.Error("the call has not ended")
	}
}
