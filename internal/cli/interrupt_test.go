package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
)

// TestSignalEndsACommandThatWaitsForInput sends signals to commands that read a named pipe into
// which nobody writes.
func TestSignalEndsACommandThatWaitsForInput(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A server that takes connections and answers nothing: without one, a request would fail first.
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	for name, args := range map[string][]string{
		"apply":    {"apply", "-f", "PIPE"},
		"import":   {"block", "import", "PIPE", "--format", "plain", "--reason", "x", "--permanent"},
		"restore":  {"restore", "PIPE", "--yes"},
		"backtest": {"backtest", "PIPE", "--rule", "1/s"},
		"truth":    {"backtest", filepath.Join("..", "..", "docs", "examples", "access.log"), "--rule", "1/s", "--truth", "PIPE"},
		"token":    {"block", "list", "--token-file", "PIPE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only a failed test takes as long
			defer cancel()
			var errs strings.Builder
			command := exec.CommandContext(ctx, program)
			command.Args = append([]string{"admin"}, args...)
			for i, arg := range command.Args {
				if arg == "PIPE" {
					command.Args[i] = pipe
				}
			}
			command.Env = append(os.Environ(), "HOME="+t.TempDir(), "STINT_ADMIN_URL=http://"+server.Addr().String())
			command.Stderr = &errs
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			waitForReader(ctx, t, pipe)
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != int(console.Interrupted) || errs.String() != "admin: interrupted\n" {
				t.Errorf("got %v: %s", err, &errs)
			}
		})
	}
}

// waitForReader returns when somebody has opened a named pipe. It leaves the pipe open, with
// nothing in it, until the test ends.
func waitForReader(ctx context.Context, t *testing.T, pipe string) {
	t.Helper()
	for {
		file, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			t.Cleanup(func() { file.Close() })
			return
		}
		if !errors.Is(err, syscall.ENXIO) || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRunLeavesInterruptsToItsCommand interrupts run and its command several times, as a terminal
// does. The command, such as a shell, ends when it likes.
func TestRunLeavesInterruptsToItsCommand(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"key":"host:a","decision":"allowed"}`)
	}))
	defer server.Close()
	const script = `n=0; trap 'n=$((n+1)); echo $n; test $n -lt 5 || exit 7' INT; echo $n; while :; do sleep 0.01; done`
	command := exec.CommandContext(t.Context(), program)
	command.Args = []string{"admin", "run", "--key", "host:a", "--", "sh", "-c", script}
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "STINT_CHECK_URL="+server.URL)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	group := -command.Process.Pid
	defer func() { _ = syscall.Kill(group, syscall.SIGKILL) }()                // only after a failure is anything left
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "5"; { // it ends after 5
		_ = syscall.Kill(group, syscall.SIGINT)
	}
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("got %v, want the exit code 7 of the command", err)
	}
}
