// Command stint-server is command server under the name that it is installed by: it
// runs one node of Stint.
package main

import (
	"os"

	"github.com/stint-dev/stint/internal/app"
)

func main() { os.Exit(app.Main(app.ThisProcess())) }
