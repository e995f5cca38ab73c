// Package testnode runs real Stint processes for tests.
package testnode

import (
	"context"
	"encoding/json"
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

// CheckURL is the environment variable by which examples find the shared node.
const CheckURL = "STINT_CHECK_URL"

// waitTimeout bounds every wait for something that must happen.
const waitTimeout = time.Minute

// AdminToken is the admin token of every node.
const AdminToken = "c1e47adca9f5c1b7d2830694ef1a5c3d"

// policies are those of every node, as docs/CLIENT.md makes them.
var policies = map[string]string{
	"users":    `{"match":["user:*"],"rules":["3/1d"]}`,
	"outside":  `{"match":["host:*"],"rules":["2/1s"]}`,
	"visitors": `{"match":["site:*"],"rules":["3/1d"]}`,
	"far":      `{"match":["far:*"],"rules":["1/1h"]}`,
	"farther":  `{"match":["farther:*"],"rules":["1/3601s"]}`,
	"never":    `{"match":["never:*"],"rules":["0/1s"]}`,
	"queue":    `{"match":["queue:*"],"rules":["5/1s"],"algorithm":"leaky_bucket","options":{"variant":"queue","burst":2}}`,
	"free":     `{"match":["free:*"],"rules":["100000/1s"]}`,
	"budgets":  `{"match":["budget:*"],"rules":["1000 tokens/1d","2 concurrent"],"cost":100,"hold":"30s"}`,
	"soon":     `{"match":["soon:*"],"rules":["1/100ms"]}`,
}

// Node is one running process of cmd/server in an empty folder of its own.
type Node struct {
	Check, Admin string // base URLs
	flags        []string
	cmd          *exec.Cmd
	dir          string
	out          servers.Output
	exited       chan struct{}
	release      []func() // of its ports
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs the tests of a package with a shared node in CheckURL, and stops it
// and all other servers that they started.
func Main(m *testing.M) {
	n, err := start(true)
	if err == nil {
		err = os.Setenv(CheckURL, n.Check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(built.dir)
		os.Exit(1)
	}
	shared = n
	servers.AtExit(func() {
		n.stop()
		os.RemoveAll(built.dir)
	})
	servers.Main(m)
}

var shared *Node

// Shared returns the node that Main started.
func Shared() *Node { return shared }

// Start starts a node for one test, with flags beside those of every node.
func Start(t testing.TB, flags ...string) *Node {
	t.Helper()
	n, err := start(true, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.end(t) })
	return n
}

// StartBeside starts another node on the database of a node that runs.
func StartBeside(t testing.TB, flags ...string) *Node {
	t.Helper()
	n, err := start(false, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.end(t) })
	return n
}

// start starts a node, isFirst on its database.
func start(isFirst bool, flags ...string) (*Node, error) {
	built.once.Do(build)
	if built.err != nil {
		return nil, built.err
	}
	dir, err := os.MkdirTemp(built.dir, "node-")
	if err != nil {
		return nil, err
	}
	n := &Node{dir: dir}
	for _, name := range []string{"--listen", "--admin-listen"} { // on ports that nobody takes before Restart
		address, release, err := servers.HoldAddress()
		if err != nil {
			return nil, err
		}
		n.flags, n.release = append(n.flags, name, address), append(n.release, release)
	}
	n.flags = append(n.flags, flags...)
	if err = n.launch(); err == nil && isFirst {
		err = n.prepare()
	}
	if err != nil {
		n.stop()
		return nil, fmt.Errorf("%w\n%s", err, n.out.String())
	}
	return n, nil
}

// launch starts the process and waits until it has printed its addresses.
func (n *Node) launch() error {
	n.exited = make(chan struct{})
	n.cmd = exec.CommandContext(context.Background(), filepath.Join(built.dir, "server"), n.flags...)
	n.cmd.Dir, n.cmd.Stdout, n.cmd.Stderr = n.dir, &n.out, &n.out
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "STINT_ADMIN_TOKEN=" + AdminToken, "STINT_PRESET=api"}
	seen := len(n.out.String())
	if err := n.cmd.Start(); err != nil {
		close(n.exited)
		return err
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in what it wrote
		close(exited)
	}(n.cmd, n.exited)
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(10 * time.Millisecond) {
		select {
		case <-n.exited:
			return fmt.Errorf("the node ended")
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the node did not print its addresses")
		}
		if found := announced.FindStringSubmatch(n.out.String()[seen:]); found != nil {
			n.Check, n.Admin = found[1], found[2]
			return nil
		}
	}
}

func build() {
	if built.dir, built.err = os.MkdirTemp("", "stint-client-"); built.err != nil {
		return
	}
	if text, err := programs.Build(filepath.Join(built.dir, "server"), "cmd/server"); err != nil {
		built.err = fmt.Errorf("cmd/server cannot be built: %w\n%s", err, text)
	}
}

var announced = regexp.MustCompile(`checks +(https?://\S+)[^\n]*\n +admin +(https?://\S+)`)

// prepare makes the node's policies.
func (n *Node) prepare() error {
	for name, policy := range policies {
		if _, err := n.try(http.MethodPut, "/v1/policies/"+name+"?confirm="+name, policy, http.StatusCreated); err != nil {
			return err
		}
	}
	return nil
}

// StartDistributed starts a node on a Redis and a Postgres server.
func StartDistributed(t testing.TB) *Node {
	t.Helper()
	return Start(t, "--redis-url", servers.Redis(t).URL, "--database-url", servers.Postgres(t).URL)
}

// Do sends an admin request, which must be answered with the status, and returns its body.
func (n *Node) Do(t testing.TB, method, path, body string, status int) []byte {
	t.Helper()
	text, err := n.try(method, path, body, status)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (n *Node) try(method, path, body string, status int) ([]byte, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, n.Admin+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	n.Authorize(request)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodDelete {
		request.Header.Set("If-Match", "*")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("%s %s: got %d, want %d: %s", method, path, response.StatusCode, status, text)
	}
	return text, err
}

// Authorize adds the admin token to a request.
func (n *Node) Authorize(r *http.Request) { r.Header.Set("Authorization", "Bearer "+AdminToken) }

// Output returns what the node has written so far.
func (n *Node) Output() string { return n.out.String() }

// AwaitOutput waits until the node has written a text: it answers before its output is read.
func (n *Node) AwaitOutput(t testing.TB, text string) {
	t.Helper()
	servers.Await(t, "the node writes "+text, func() bool { return strings.Contains(n.Output(), text) })
}

// Kill ends the node as a crash would.
func (n *Node) Kill() { n.stop() }

// Crash ends the node as Kill does, but keeps its data for Restart.
func (n *Node) Crash() {
	if n.cmd.Process != nil {
		_ = n.cmd.Process.Kill() // it may have ended
	}
	<-n.exited
}

// Pid returns the id of the node's process.
func (n *Node) Pid() int { return n.cmd.Process.Pid }

// Freeze stops the process of the node and returns once nothing of it runs. The end of the test, or
// Continue, ends that.
func (n *Node) Freeze(t testing.TB) {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Continue)
	servers.Await(t, "the node has stopped", func() bool { return servers.IsStopped(n.Pid()) })
}

// Continue ends Freeze.
func (n *Node) Continue() { _ = n.cmd.Process.Signal(syscall.SIGCONT) } // it may have ended

// Terminate asks the node to end, as an init system does, and waits until it has.
func (n *Node) Terminate() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-n.exited
}

// Restart starts a node that has crashed again, under its former addresses.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.flags = append(n.flags, "--listen", strings.TrimPrefix(n.Check, "http://"), "--admin-listen", strings.TrimPrefix(n.Admin, "http://"))
	if err := n.launch(); err != nil {
		t.Fatalf("%v\n%s", err, n.out.String())
	}
}

// end stops the node and fails the test if a race was seen in it.
func (n *Node) end(t testing.TB) {
	t.Helper()
	n.stop()
	if strings.Contains(n.out.String(), "DATA RACE") {
		t.Errorf("the node's output:\n%s", n.out.String())
	}
}

func (n *Node) stop() {
	n.Crash()
	for _, release := range n.release {
		release()
	}
	n.release = nil
	os.RemoveAll(n.dir)
}

// AddEntry adds an entry of a kind, "blocks" or "exemptions", with the fields of body, and
// returns its id.
func (n *Node) AddEntry(t testing.TB, kind, body string) (id string) {
	t.Helper()
	var added struct{ ID string }
	if err := json.Unmarshal(n.Do(t, http.MethodPost, "/v1/"+kind, body, http.StatusCreated), &added); err != nil {
		t.Fatal(err)
	}
	return added.ID
}

// EndEntry ends an entry.
func (n *Node) EndEntry(t testing.TB, kind, id string) {
	t.Helper()
	n.Do(t, http.MethodDelete, "/v1/"+kind+"/"+id, "", http.StatusOK)
}
