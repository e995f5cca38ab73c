// Package programs builds the commands of this module for tests that start them.
package programs

import (
	"os/exec"
	"runtime"
	"slices"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/cli"
)

// commands are what the commands run. A test that builds them contains their code by it: go test
// would else repeat a cached result after they have changed.
var commands = []any{app.Main, cli.Main}

// Build builds a command of this module, such as cmd/server, at path, with the
// race detector where the tests are. output is what go build says.
func Build(path, command string) (output []byte, err error) {
	runtime.KeepAlive(commands)
	args := slices.Concat([]string{"build"}, buildFlags, []string{"-o", path, "github.com/stint-dev/stint/" + command})
	return exec.Command("go", args...).CombinedOutput()
}
