package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/test/testnode"
)

// TestANodeThatIsShortOfFilesGoesOn opens connections to each listener until the node has no
// file left for one more.
func TestANodeThatIsShortOfFilesGoesOn(t *testing.T) {
	n := testnode.Start(t, "--grpc-listen", "127.0.0.1:0")
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	most := uint64(len(open) + 10)
	if err := unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{n.Admin, n.Check} {
		var opened []net.Conn
		for range 30 {
			c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			opened = append(opened, c)
		}
		for deadline := time.Now().Add(time.Minute); !strings.Contains(n.Output(), "connections cannot be accepted"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the node ran out of no files:\n%s", n.Output())
			}
		}
		for _, c := range opened {
			_ = c.Close()
		}
		n.Do(t, http.MethodGet, "/readyz", "", http.StatusOK)
		answer, err := http.Post(n.Check+"/v1/check", "application/json", strings.NewReader(`{"key":"free:a"}`))
		if err != nil {
			t.Fatalf("a check afterwards: %v\n%s", err, n.Output())
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("a check afterwards: %s", answer.Status)
		}
	}
}
