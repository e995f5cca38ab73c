package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/machine"
	"github.com/stint-dev/stint/internal/supervise"
)

// Process is the process that a node runs in.
type Process struct {
	Args    []string // without the program's name
	Environ []string
	Out     io.Writer // for people
	Logs    io.Writer // also gets the error that ends the process
}

// ThisProcess returns the process of the caller.
func ThisProcess() Process {
	return Process{Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Logs: os.Stderr}
}

// complain prints a line with the name of the program.
func (p Process) complain(what ...any) {
	fmt.Fprintln(p.Logs, append([]any{"stint-server:"}, what...)...)
}

// Main runs one node until a signal ends it, and returns the exit code.
func Main(p Process) int {
	if len(p.Args) > 0 && p.Args[0] == "config" {
		return runConfig(p)
	}
	if len(p.Args) == 1 && p.Args[0] == "man" {
		if err := manualPage().Write(p.Out, buildinfo.Read()); err != nil {
			p.complain(err)
			return 1
		}
		return 0
	}
	if len(p.Args) > 0 && p.Args[0] == "health" {
		p.Args = p.Args[1:]
		if err := askHealth(p); err != nil && !errors.Is(err, ErrHelp) {
			p.complain(err)
			return 1
		}
		return 0
	}
	start := run
	if len(p.Args) > 0 && p.Args[0] == "demo" {
		p.Args, start = p.Args[1:], runDemo
	}
	if err := start(p); err != nil && !errors.Is(err, ErrHelp) {
		p.complain(err)
		return 1
	}
	return 0
}

func run(p Process) error {
	settings, err := Load(p.Args, p.Environ)
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1) // before the start: by default SIGHUP ends the process
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, hint := range settings.Hints {
		p.complain("hint:", hint)
	}
	limitHeap(p.Environ)
	node, err := New(ctx, settings, p.Out, p.Logs)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		p.complain("ended by a signal before it had started")
		return nil
	}
	if err != nil {
		return settings.bySource(err)
	}
	go supervise.Run(ctx, "reload", func(ctx context.Context) {
		for {
			select {
			case <-hangups:
				node.live.reload(func() (Settings, error) { return Load(p.Args, p.Environ) })
				node.geo.Reload(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return settings.bySource(node.Run(ctx))
}

// limitHeap makes the garbage collector work harder near the memory limit of the machine or the
// container, unless GOMEMLIMIT is set.
func limitHeap(environ []string) {
	isSet := slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GOMEMLIMIT=") })
	if limit := machine.Memory(); limit > 0 && !isSet {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// runConfig runs the commands on settings files.
func runConfig(p Process) int {
	const usage = "usage: stint-server config check FILE, stint-server config example, or stint-server config reference"
	switch args := p.Args[1:]; {
	case slices.Contains(args, "--help"), slices.Contains(args, "-h"):
		fmt.Fprintln(p.Out, usage)
		return 0
	case len(args) == 1 && (args[0] == "example" || args[0] == "reference"):
		text := ExampleFile()
		if args[0] == "reference" {
			text = SettingsPage()
		}
		if _, err := fmt.Fprint(p.Out, text); err != nil {
			p.complain(err)
			return 1
		}
		return 0
	case len(args) == 2 && args[0] == "check":
		if CheckFile(args[1], p) {
			return 0
		}
		return 1
	}
	p.complain(usage)
	return 2
}

// healthTimeout bounds the request for the readiness.
const healthTimeout = 5 * time.Second

// askHealth asks the node on this machine with the settings of p whether it is ready. It
// returns nil if it is.
func askHealth(p Process) error {
	s, err := Load(p.Args, p.Environ)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && addr.Is6() {
			host = "::1"
		}
	}
	scheme := "http"
	// The address is of this machine, and no certificate names it.
	client := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above
	if s.TLS.Enabled() {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the node does not answer: %s", oneLine(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the node is not ready: it answers %d", answer.StatusCode)
	}
	return nil
}
