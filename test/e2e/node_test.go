package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// adminToken is the bootstrap token of every node that is given one.
const adminToken = "e2e0adca9f5c1b7d2830694ef1a5c3d7"

// waitTimeout limits every wait for something that must happen; it says nothing
// about how soon it happens.
const waitTimeout = time.Minute

// node is one running process of cmd/server.
type node struct {
	testing.TB
	cmd      *exec.Cmd
	dir      string         // where it was started
	out, log servers.Output // its standard output and error
	exited   chan struct{}  // closed once it has ended
	check    string         // the base URL of each listener
	admin    string
	token    string // what admin requests are sent with
}

// launch starts cmd/server in an empty folder with nothing of the surrounding
// environment but environ, and waits for nothing.
func launch(t testing.TB, environ []string, args ...string) *node {
	t.Helper()
	n := &node{TB: t, cmd: exec.Command(server.built(t), args...), dir: t.TempDir(), exited: make(chan struct{}), token: adminToken}
	n.cmd.Dir, n.cmd.Stdout, n.cmd.Stderr = n.dir, &n.out, &n.log
	n.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, endQuickly, "STINT_PRESET=api"}, environ...)
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = n.cmd.Wait() // how it ended is in ProcessState
		close(n.exited)
	}()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		<-n.exited
		if strings.Contains(n.log.String(), "DATA RACE") || t.Failed() {
			t.Errorf("the node's log:\n%s", tail(n.log.String()))
		}
	})
	return n
}

func tail(log string) string { return log[max(0, len(log)-2000):] }

var announced = regexp.MustCompile(`checks +(https?://\S+)[^\n]*\n +admin +(https?://\S+)`)

// awaitRunning waits until the node has said where it listens.
func (n *node) awaitRunning() {
	n.Helper()
	servers.Await(n, "the node runs", func() bool {
		if !n.running() {
			n.Fatalf("the node ended: %s", n.log.String())
		}
		found := announced.FindStringSubmatch(n.out.String())
		if found == nil {
			return false
		}
		n.check, n.admin = found[1], found[2]
		return true
	})
}

func (n *node) running() bool {
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// onFreePorts are the arguments that every node listens by.
var onFreePorts = []string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}

// startNode starts a node that knows adminToken and waits until it runs.
func startNode(t testing.TB, args ...string) *node {
	t.Helper()
	n := launch(t, []string{"STINT_ADMIN_TOKEN=" + adminToken}, slices.Concat(onFreePorts, args)...)
	n.awaitRunning()
	return n
}

// end sends a signal and waits for the process to end. It returns the exit code, -1
// where a signal killed it.
func (n *node) end(signal syscall.Signal) int {
	n.Helper()
	if err := n.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.Fatal(err)
	}
	return n.exitCode()
}

// exitCode waits for the process to end by itself.
func (n *node) exitCode() int {
	n.Helper()
	select {
	case <-n.exited:
		return n.cmd.ProcessState.ExitCode()
	case <-time.After(waitTimeout):
		n.Fatalf("the node has not ended: %s", tail(n.log.String()))
		return 0
	}
}
