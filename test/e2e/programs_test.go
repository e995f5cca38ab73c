package e2e_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stint-dev/stint/test/programs"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// endQuickly is the environment that keeps the race detector, where it is on,
// from sleeping a second at the end of each program.
const endQuickly = "GORACE=atexit_sleep_ms=10"

// program builds a command of this module once for all tests.
type program struct {
	name string
	once sync.Once
	path string
	err  error
}

var (
	server = &program{name: "server"}
	admin  = &program{name: "admin"}
)

// built returns the path of the program.
func (p *program) built(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		dir, err := os.MkdirTemp("", "stint-e2e-")
		if err != nil {
			p.err = err
			return
		}
		servers.AtExit(func() { os.RemoveAll(dir) })
		p.path = filepath.Join(dir, p.name)
		var output []byte
		if output, p.err = programs.Build(p.path, "cmd/"+p.name); p.err != nil {
			t.Logf("%s", output)
		}
	})
	if p.err != nil {
		t.Fatalf("go build of cmd/%s: %v", p.name, p.err)
	}
	return p.path
}
