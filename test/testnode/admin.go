package testnode

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stint-dev/stint/test/programs"
	"github.com/stint-dev/stint/test/servers"
)

// AdminProgram returns the path of the command-line program, which is built once for the
// tests of a package.
func AdminProgram(t testing.TB) string {
	t.Helper()
	path, err := buildAdmin()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildAdmin = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stint-admin-")
	if err != nil {
		return "", err
	}
	servers.AtExit(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "stint-admin")
	if text, err := programs.Build(path, "cmd/admin"); err != nil {
		return "", fmt.Errorf("cmd/admin cannot be built: %w\n%s", err, text)
	}
	return path, nil
})
