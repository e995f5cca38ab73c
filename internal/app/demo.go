package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/demo"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// demoFlags are the settings of the demo. It reads no environment variables and no files: nothing of
// an installation on the same machine must end up in it.
type demoFlags struct {
	listen, admin string
	history       time.Duration
}

func readDemoFlags(p Process) (f demoFlags, err error) {
	flags := pflag.NewFlagSet("stint-server demo", pflag.ContinueOnError)
	flags.SetOutput(p.Out)
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "the address for checks, of this machine only")
	flags.StringVar(&f.admin, "admin-listen", "127.0.0.1:8081", "the address of the pages and the admin API, of this machine only")
	flags.DurationVar(&f.history, "history", demo.MaxHistory, "how long before now the clients have been there, 10m to 24h")
	flags.Usage = func() {
		fmt.Fprintf(p.Out, `usage: stint-server demo [flags]

Runs a node with made-up clients in a temporary folder: what they did during the last day, and what they
go on to do. Its pages ask for no password and are open to this machine only. Ctrl-C ends it and deletes
everything.

%s`, flags.FlagUsages())
	}
	if err := flags.Parse(p.Args); err != nil {
		return f, err
	}
	if flags.NArg() > 0 {
		return f, fmt.Errorf("demo: %q is not a flag; see stint-server demo --help", flags.Arg(0))
	}
	if f.history < 10*time.Minute || f.history > demo.MaxHistory {
		return f, fmt.Errorf("demo: --history %s is not between 10m and 24h", f.history)
	}
	for name, address := range map[string]string{"listen": f.listen, "admin-listen": f.admin} {
		if !isLoopback(address) {
			return f, fmt.Errorf("demo: --%s %s is open to other machines, and the pages of the demo ask for no password; use an address such as 127.0.0.1:8080", name, address)
		}
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address) // now, and not after the history has been made
		if err != nil {
			return f, fmt.Errorf("demo: --%s %s: %s; end the program that listens there, or give the demo another address, such as 127.0.0.1:9080", name, address, oneLine(err))
		}
		listener.Close()
	}
	return f, nil
}

// runDemo runs the demo until a signal ends it.
func runDemo(p Process) (err error) {
	flags, err := readDemoFlags(p)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "stint-demo-")
	if err != nil {
		return fmt.Errorf("the demo needs a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	data := filepath.Join(folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	s, err := Load([]string{"--listen", flags.listen, "--admin-listen", flags.admin, "--data-dir", data, "--log-level", "warn"}, nil)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	fmt.Fprintln(p.Out, "Making the history; a day of it takes about ten seconds ...")
	secret := newCredentials("")
	clients, err := demo.Fill(ctx, demoFiles(s), time.Now, flags.history, func(ctx context.Context, store *sqlstore.Store) error {
		return (&firstStart{out: io.Discard, generated: secret}).run(ctx, store)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ended by a signal
	}
	if err != nil {
		return fmt.Errorf("demo: its history cannot be made: %w", err)
	}
	s.openPages = true
	node, err := New(ctx, s, p.Out, p.Logs)
	if err != nil {
		return err
	}
	node.guests = func(ctx context.Context) { clients.Run(ctx, node.gate, node.log) }
	node.greet = func() { demo.Welcome(p.Out, urlOf(s.AdminTLS, node.admin), secret.token.Text) }
	return node.Run(ctx)
}

func demoFiles(s Settings) demo.Files {
	dir := dataDir{path: s.DataDir}
	return demo.Files{Database: dir.database(), Snapshot: dir.snapshot()}
}
