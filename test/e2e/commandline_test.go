package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// command returns the operators' command line against a node, not yet started.
func (n *node) command(args ...string) *exec.Cmd {
	n.Helper()
	cmd := exec.Command(admin.built(n), args...)
	cmd.Dir = n.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, endQuickly, "STINT_ADMIN_URL=" + n.admin, "STINT_CHECK_URL=" + n.check, "STINT_ADMIN_TOKEN=" + n.token}
	return cmd
}

// run runs the operators' command line against a node.
func (n *node) run(args ...string) (output string, code int) {
	n.Helper()
	cmd := n.command(args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		n.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// succeed runs a command that must succeed.
func (n *node) succeed(args ...string) string {
	n.Helper()
	output, code := n.run(args...)
	if code != 0 {
		n.Fatalf("admin %s: got exit code %d: %s", strings.Join(args, " "), code, output)
	}
	return output
}

func TestCommandLineWorksOnAnyNode(t *testing.T) {
	s := shared(t)
	nodes := s.start(t, 2)
	nodes[0].succeed("block", "add", "ip:203.0.113.0/24", "--reason", "scraping", "--for", "24h")
	servers.Await(t, "the other node refuses the blocked network", func() bool {
		output, code := nodes[1].run("check", "ip:203.0.113.7")
		return code == 3 && strings.Contains(output, "scraping")
	})
	nodes[1].succeed("policy", "set", "api", "--match", "token:*", "--rule", "2/h")
	if output := nodes[0].succeed("policy", "list"); !strings.Contains(output, "api") {
		t.Errorf("got %s", output)
	}
	if output := nodes[0].succeed("migrate", "status", "--database-url", s.postgres.URL); !strings.Contains(output, "up to date") {
		t.Errorf("got %s", output)
	}
}

func TestBackupOfARunningNodeRestoresEverything(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["1/h"]}`)
	n.about("token:a")
	n.must(http.StatusCreated, post, wire.PathBlocks, `{"pattern":"token:bad"}`)
	file := filepath.Join(t.TempDir(), "stint.tar")
	n.succeed("backup", file)

	other := startNode(t)
	other.succeed("restore", file, "--yes")
	if d := other.about("token:a"); d.Decision != wire.Limited || d.Rule != "1/1h" {
		t.Errorf("a limited key after the restore: got %+v", d)
	}
	if d := other.about("token:bad"); d.Decision != wire.Blocked {
		t.Errorf("a blocked key after the restore: got %+v", d)
	}
	if d := other.about("token:b"); !d.Allowed {
		t.Errorf("an unused key after the restore: got %+v", d)
	}
}
