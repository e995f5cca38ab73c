package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// TestNodeRecoversFromRunningOutOfFiles opens connections to the admin listener, and then to the one
// of checks, until the node has no file descriptor for another.
func TestNodeRecoversFromRunningOutOfFiles(t *testing.T) {
	n := testnode.Start(t)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(len(open) + 10)
	if err := unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{n.Admin, n.Check} {
		address := strings.TrimPrefix(base, "http://")
		var opened []net.Conn
		for range 30 {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			opened = append(opened, c)
		}
		servers.Await(t, "the listener "+address+" runs out of files", func() bool {
			for line := range strings.Lines(n.Output()) {
				if strings.Contains(line, "connections cannot be accepted") && strings.Contains(line, address) {
					return true
				}
			}
			return false
		})
		for _, c := range opened {
			_ = c.Close()
		}
		n.Do(t, http.MethodGet, "/readyz", "", http.StatusOK)
		answer, err := http.Post(n.Check+"/v1/check", "application/json", strings.NewReader(`{"key":"free:a"}`))
		if err != nil {
			t.Fatalf("a check afterwards: got %v\n%s", err, n.Output())
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("a check afterwards: got %s, want 200", answer.Status)
		}
	}
}
