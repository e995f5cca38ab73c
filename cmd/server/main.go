// Command server runs one node of Stint. With no settings it is the embedded
// default: logs in memory, SQLite in ./data, both listeners on loopback.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stint-dev/stint/internal/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stint:", err)
		os.Exit(1)
	}
}

func run() error {
	settings, err := app.Load(os.Args[1:], os.Environ())
	if errors.Is(err, app.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node, err := app.New(ctx, settings, os.Stdout, os.Stderr)
	if err != nil {
		return err
	}
	return node.Run(ctx)
}
