// Command stint-admin is command admin under the name that it is installed by: the
// operator's command line of Stint.
package main

import (
	"os"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/console"
)

func main() { os.Exit(int(cli.Main(os.Args[1:], console.Process()))) }
