// Package upgrade_test starts this version on the data of the last released one, made by
// that version's own program, and runs both versions side by side.
package upgrade_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/programs"
	"github.com/stint-dev/stint/test/servers"
)

var (
	oldProgram  = flag.String("old", "", "the server of the last released version, to run beside this one and to make fixtures with")
	makeFixture = flag.String("make", "", "the folder to write a fixture into, made by the program that -old names")
	madeVersion = flag.String("version", "", "the version that -old is, for the fixture")
)

// waitTimeout bounds every wait for something that must happen.
const waitTimeout = time.Minute

func TestMain(m *testing.M) { servers.Main(m) }

var built struct {
	sync.Once
	path string
	err  error
}

// newProgram builds the server of this version once.
func newProgram(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		dir, err := os.MkdirTemp("", "stint-upgrade-")
		if err != nil {
			built.err = err
			return
		}
		servers.AtExit(func() { os.RemoveAll(dir) })
		built.path = filepath.Join(dir, "server")
		if text, err := programs.Build(built.path, "cmd/server"); err != nil {
			built.err = fmt.Errorf("cmd/server cannot be built: %w\n%s", err, text)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// node is a running server of either version.
type node struct {
	t            testing.TB
	check, admin string // base URLs
	cmd          *exec.Cmd
	out          servers.Output
	exited       chan struct{}
}

var announced = regexp.MustCompile(`checks +(https?://\S+)[^\n]*\n +admin +(https?://\S+)`)

// start starts a program and waits until it has printed its addresses and is ready.
func start(t testing.TB, program string, args ...string) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, exited: make(chan struct{})}
	n.cmd = exec.Command(program, append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--node-name", "upgraded"}, args...)...)
	n.cmd.Dir, n.cmd.Stdout, n.cmd.Stderr = dir, &n.out, &n.out
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "STINT_ADMIN_TOKEN=" + adminToken, "STINT_PRESET=api"}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = n.cmd.Wait() // how it ended is in what it wrote
		close(n.exited)
	}()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		<-n.exited
		if t.Failed() {
			t.Logf("the node's output:\n%s", n.out.String())
		}
	})
	servers.Await(t, "the node runs", func() bool {
		select {
		case <-n.exited:
			t.Fatalf("the node ended:\n%s", n.out.String())
		default:
		}
		found := announced.FindStringSubmatch(n.out.String())
		if found == nil {
			return false
		}
		n.check, n.admin = found[1], found[2]
		response, err := http.Get(n.check + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return n
}

// end terminates the node and waits until it has ended.
func (n *node) end() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.exited
}

// as sends a request with a token and returns the status and the body, or an error.
func as(token, method, url, body string) (status int, text []byte, err error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// do sends an admin request, which must succeed, and reads the answer.
func do[T any](n *node, method, path, body string) (answer T) {
	n.t.Helper()
	status, text, err := as(adminToken, method, n.admin+path, body)
	if err != nil || status >= 300 {
		n.t.Fatalf("%s %s: status %d, %v: %s", method, path, status, err, text)
	}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			n.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return answer
}

// decision is what a check answers.
type decision struct {
	Decision string `json:"decision"`
	Policy   string `json:"policy"`
	Degraded bool   `json:"degraded"`
}

// ask checks a key.
func (n *node) ask(body string) (d decision, err error) {
	status, text, err := as(adminToken, http.MethodPost, n.check+"/v1/check", body)
	if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests && status != http.StatusForbidden {
		err = fmt.Errorf("check: status %d: %s", status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	return d, err
}

// mustAsk checks a key, which must be answered.
func (n *node) mustAsk(body string) decision {
	n.t.Helper()
	d, err := n.ask(body)
	if err != nil {
		n.t.Fatal(err)
	}
	return d
}
