package app

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
)

// writes records each write separately, as the reader of a pipe may see them.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestAnnounceWritesAllAddressesAtOnce(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	var out writes
	a := &App{out: &out, checks: listen(), admin: listen(), grpc: grpcDoor{listener: listen()}, backends: &backends{dir: &dataDir{path: "/the/data"}},
		catalog: catalog.New(nil, time.Now), log: slog.New(slog.DiscardHandler)}
	a.announce()
	if len(out) != 1 {
		t.Fatalf("%d writes, want one: %q", len(out), out)
	}
	for _, want := range []string{a.checks.Addr().String(), a.admin.Addr().String(), a.grpc.listener.Addr().String(), "/the/data"} {
		if !strings.Contains(out[0], want) {
			t.Errorf("%q does not contain %s", out[0], want)
		}
	}
}
