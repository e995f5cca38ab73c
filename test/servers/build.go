package servers

import (
	"os/exec"
	"slices"
)

// Build builds a command of this module, such as cmd/server, at path, with the
// race detector where the tests are. output is what go build says.
func Build(path, command string) (output []byte, err error) {
	args := slices.Concat([]string{"build"}, buildFlags, []string{"-o", path, "github.com/stint-dev/stint/" + command})
	return exec.Command("go", args...).CombinedOutput()
}
