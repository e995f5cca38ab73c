package envoy

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// serve runs a server of a node without policies until the test ends.
func serve(t *testing.T, o Options) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.View = emptyView{}
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop(time.Second)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// h2spec tests what RFC 9113 and RFC 7541 require of servers.
func TestListenerConformsToHTTP2(t *testing.T) {
	program := filepath.Join(t.TempDir(), "h2spec")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../../../tools/h2spec", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	host, port, err := net.SplitHostPort(serve(t, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "-h", host, "-p", port, "-o", "10", "--strict", "generic", "http2", "hpack").CombinedOutput()
	if err != nil || !regexp.MustCompile(`\b0 failed`).Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}
