// Command server runs one node of Stint. With no settings it is the embedded
// default: logs in memory, SQLite in ./data, both listeners on loopback.
package main

import (
	"os"

	"github.com/stint-dev/stint/internal/app"
)

func main() { os.Exit(app.Main(app.ThisProcess())) }
