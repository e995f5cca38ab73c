package e2e_test

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// The demo shows its pages to a browser without a password, and to nobody from elsewhere; its clients
// go on; and it leaves nothing behind.
func TestDemoIsOpenOnThisMachineAndLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	n := launch(t, []string{"TMPDIR=" + temporary, "STINT_DATABASE_URL=postgres://not.read/", "STINT_LISTEN=0.0.0.0:1"}, append([]string{"demo", "--history", "30m"}, onFreePorts...)...)
	n.awaitRunning()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	page := func(host, path string) (int, string) {
		q, err := http.NewRequest(http.MethodGet, n.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		answer, err := browser.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, text := page("", "/offenders"); status != http.StatusOK || !strings.Contains(text, "203.0.113.") || strings.Contains(text, "type=\"password\"") {
		t.Errorf("the offenders are answered %d: %s", status, text)
	}
	jar, _ = cookiejar.New(nil)
	browser.Jar = jar
	if status, text := page("rebound.example", "/offenders"); status == http.StatusOK || strings.Contains(text, "203.0.113.") {
		t.Errorf("another name for this machine is answered %d", status)
	}
	n.token = regexp.MustCompile(`stint_admin_\w+`).FindString(n.out.String())
	n.must(http.StatusOK, get, wire.PathPolicies+"/models", "")
	if code := n.end(syscall.SIGINT); code != 0 {
		t.Errorf("the demo ended with %d", code)
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %s: %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "data")); err == nil {
		t.Error("the demo has made the data folder of a node")
	}
}

func TestDemoRefusesWhatWouldOpenIt(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for want, args := range map[string][]string{
		"open to other machines":       {"--admin-listen", "0.0.0.0:0"},
		"address already in use":       {"--listen", used.Addr().String()},
		"is not between 10m and 24h":   {"--history", "48h"},
		"unknown flag: --data-dir":     {"--data-dir", "x"},
		`"here" is not a flag`:         {"here"},
		"--listen :0 is open to other": {"--listen", ":0"},
	} {
		if line := refused(t, nil, append([]string{"demo"}, args...)...); !strings.Contains(line, want) {
			t.Errorf("%q says %s, want %q", args, line, want)
		}
	}
}
