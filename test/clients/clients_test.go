// Package clients runs the tests of the clients in other languages, each with its own tools and
// the real frameworks, against real nodes.
package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

func TestMain(m *testing.M) { testnode.Main(m) }

// run runs a command in a folder of clients, with a node and the faults of its own, and shows
// what it writes.
func run(t *testing.T, folder string, command ...string) {
	t.Helper()
	t.Parallel()
	node, c := testnode.Start(t, "--challenge-wait", "1s"), readCases(t)
	putPolicies(t, node, c)
	folder, err := filepath.Abs(filepath.Join("..", "..", "clients", folder))
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), command[0], command[1:]...)
	program.Dir = folder
	program.Env = append(os.Environ(), "STINT_CHECK_URL="+node.Check, "STINT_ADMIN_URL="+node.Admin, "STINT_ADMIN_TOKEN="+testnode.AdminToken,
		"STINT_FAULTS_URL="+serveFaults(t, c), "PYTHONDONTWRITEBYTECODE=1")
	text, err := program.CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Errorf("%v: %v", command, err)
	}
}

// python returns Debian's Python, which has Debian's packages, or else the one in the PATH.
func python() string {
	const debian = "/usr/bin/python3"
	if _, err := os.Stat(debian); err == nil {
		return debian
	}
	return "python3"
}

func TestNode(t *testing.T) {
	run(t, "node", "node", "--test", "test/client.test.js", "test/challenge.test.js", "test/limiters.test.js", "test/conformance.test.js")
}

func TestPython(t *testing.T) {
	run(t, "python", python(), "-W", "ignore::ResourceWarning", "-m", "unittest", "discover")
}

func TestPythonTypes(t *testing.T) {
	run(t, "python", "mypy", "--cache-dir", t.TempDir())
}

func TestPHP(t *testing.T) {
	run(t, "php", "php", "tests/client.php")
}

func TestPHPConformance(t *testing.T) {
	run(t, "php", "php", "tests/conformance.php")
}

func TestPHPMiddleware(t *testing.T) {
	run(t, "php", "php", "tests/middleware.php")
}

func TestPHPWordPress(t *testing.T) {
	run(t, "php", "php", "tests/wordpress.php")
}
