// Command admin is the operator's command line of Stint.
package main

import (
	"os"

	"github.com/stint-dev/stint/internal/cli"
)

func main() { os.Exit(int(cli.Main(os.Args[1:], cli.Process()))) }
