package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

func TestRunSpacesCommandsByReservationsOverTwoNodes(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "host", `{"match":["host:*"],"rules":["2/700ms"]}`)
		file := filepath.Join(t.TempDir(), "ran")
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				if output, code := nodes[i%2].run("run", "--key", "host:a", "--", "sh", "-c", "echo ran >>"+file); code != 0 {
					t.Errorf("run: got exit code %d: %s", code, output)
				}
			})
		}
		group.Wait()
		text, err := os.ReadFile(file)
		if err != nil || strings.Count(string(text), "ran") != 6 {
			t.Errorf("the commands wrote %q, %v, want six lines", text, err)
		}
		if logged := nodes[0].logged("host:a"); len(logged) > 2 {
			t.Errorf("%d reservations are in one window, want at most 2", len(logged))
		}
	})
}

func TestRunCancelsItsReservationWhenInterrupted(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "host", `{"match":["host:*"],"rules":["1/20m"]}`)
		nodes[0].about("host:a")
		for _, stop := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := nodes[0].command("run", "--key", "host:a", "--", "echo", "never")
			var printed servers.Output
			cmd.Stdout, cmd.Stderr = &printed, &printed
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			servers.Await(t, "the command has its reservation", func() bool { return len(nodes[1].logged("host:a")) == 2 })
			if err := cmd.Process.Signal(stop); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // how it ended is in ProcessState
			if code := cmd.ProcessState.ExitCode(); code != 130 || strings.Contains(printed.String(), "never") {
				t.Errorf("run: got exit code %d: %s", code, printed.String())
			}
			if logged := nodes[1].logged("host:a"); len(logged) != 1 {
				t.Errorf("after %s the log has %d entries, want 1", stop, len(logged))
			}
		}
	})
}

func TestRunForwardsSIGTERMAndTheExitCode(t *testing.T) {
	n := startNode(t)
	started := filepath.Join(t.TempDir(), "started")
	cmd := n.command("run", "--key", "host:b", "--", "sh", "-c", "trap 'exit 9' TERM; touch "+started+"; while :; do sleep 0.05; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	servers.Await(t, "the command runs", func() bool { _, err := os.Stat(started); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(waitTimeout):
		_ = cmd.Process.Kill()
		t.Fatal("run has not ended after SIGTERM")
	}
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("run: got exit code %d, want 9, that of the command", code)
	}
}
