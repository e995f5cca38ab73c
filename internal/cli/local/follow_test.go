package local

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/console"
)

// TestRefusedTokenAndNoAnswerHaveTheirExitCodes runs the commands that send access logs to
// a check listener that refuses the token, and to an address at which nothing listens.
func TestRefusedTokenAndNoAnswerHaveTheirExitCodes(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"status":401,"detail":"There is no such token."}`))
	}))
	defer refusing.Close()
	forbidding := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"status":403,"code":"forbidden","detail":"This token has not the scope check."}`))
	}))
	defer forbidding.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	if err := os.WriteFile(log, []byte("192.0.2.1 - - [20/Nov/2026:14:03:14 +0000] \"GET / HTTP/1.1\" 200 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command func(*console.Console) *cobra.Command
		args    []string
		server  string
		code    console.Code
		says    string
	}{
		{NewFollow, []string{log, "--once", "--speed", "0"}, refusing.URL, console.Denied, "STINT_CHECK_TOKEN or --check-token-file"},
		{NewFollow, []string{log, "--once", "--speed", "0"}, forbidding.URL, console.Denied, "STINT_CHECK_TOKEN or --check-token-file"},
		{NewFollow, []string{log, "--once", "--speed", "0"}, gone.URL, console.Unreachable, "--check-url or STINT_CHECK_URL"},
		{NewFollow, []string{log, "--from-start", "--once", "--max-age", "0", "--key-column", "remote_addr", "--state", filepath.Join(dir, "state")}, refusing.URL, console.Denied, "STINT_CHECK_TOKEN or --check-token-file"},
	} {
		printed, err := os.Create(filepath.Join(dir, "printed"))
		if err != nil {
			t.Fatal(err)
		}
		con := &console.Console{System: console.System{
			Name: "admin", Stdin: printed, Stdout: printed, Stderr: printed, Now: time.Now,
			Getenv: func(variable string) string { return map[string]string{"STINT_CHECK_URL": c.server}[variable] },
		}}
		command := c.command(con)
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs(c.args)
		err = command.ExecuteContext(t.Context())
		printed.Close()
		var exit *console.ExitError
		if !errors.As(err, &exit) || exit.Code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s at %s: %v, want the exit code %d and %q", command.Name(), c.server, err, c.code, c.says)
		}
	}
}
