package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newRun) }

// runFlags are the flags of run.
type runFlags struct {
	keys    []string
	check   wire.CheckRequest
	cost    amountFlag
	hold    durationFlag
	maxWait durationFlag
	timeout durationFlag
}

func newRun(con *console.Console) *cobra.Command {
	f := runFlags{maxWait: durationFlag{Duration: wire.MaxWait, given: true}}
	c := &cobra.Command{
		Use:   "run --key KEY... -- COMMAND ARG...",
		Short: "Wait until a key is allowed, then run a command",
		Long: `Make a reservation for a key, or for several that must all allow it, wait until its time and
then run a command. Reservations are granted in order, across all machines, and never more
often than the rules allow. If the next possible time is further ahead than --max-wait, run
asks again later. A reservation that is not used, because run was interrupted while it
waited, is cancelled.

With --hold the cost is held while the command runs, as policies of amounts and of what is
concurrent need it. Run then waits until it is allowed, renews the hold, and settles it when
the command has ended.

The exit code is the command's, or 128 plus the number of the signal that ended it. If the
command was not run: 1 if the server rejects the request, 2 for a wrong flag, 3 if a block
or a rule refuses permanently or --timeout has passed, 4 if the server is unreachable, 126 if
the command is not executable, 127 if it does not exist, and 130 if waiting was interrupted.`,
		Example: "admin run --key host:api.example.com -- curl -s https://api.example.com/items\n" +
			"admin run --key host:api.example.com --key token:abc --max-wait 5m --timeout 1h -- ./crawl.sh",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 0 || len(args) == 0 {
				return errors.New("give the command after --")
			}
			return nil
		},
		RunE: checkOnline(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return runWhenAllowed(c.Context(), con, server, args, &f)
		}),
	}
	c.Flags().StringArrayVar(&f.keys, "key", nil, "the key to reserve for, for example host:api.example.com; may be repeated, up to 16 times")
	c.Flags().StringVar(&f.check.Policy, "policy", "", "the policy to check; the most specific match if omitted")
	c.Flags().Var(&f.cost, "cost", "the cost of the command, 1 to 1000, and more under policies that count amounts; what the policy says if omitted")
	c.Flags().Var(&f.hold, "hold", "hold the cost while the command runs, renewed for this long each time, 1s to 1d")
	c.Flags().Var(&f.maxWait, "max-wait", "how far ahead a reservation may be, at most 1h")
	c.Flags().Var(&f.timeout, "timeout", "how long to wait in all; unlimited if omitted")
	requireFlag(c, "key")
	return c
}

// Exit codes of shells for a command that cannot be run.
const (
	notExecutable console.Code = 126
	notRun        console.Code = 127
)

// find returns the path of a command.
func find(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", &console.ExitError{Code: notExecutable, Err: fmt.Errorf("%q is not executable", command)}
	case err != nil:
		return "", &console.ExitError{Code: notRun, Err: fmt.Errorf("command %q not found", command)}
	}
	return path, nil
}

func runWhenAllowed(ctx context.Context, con *console.Console, server *client.Client, command []string, f *runFlags) error {
	if f.check.Cost = f.cost.amount; f.cost.given && f.check.Cost < 1 {
		return console.Usagef("--cost is 0; it must be a whole number from 1 to %d", wire.MaxAmount)
	}
	if err := withinMaxWait(f.maxWait); err != nil {
		return err
	}
	path, err := find(command[0]) // before making a reservation that nobody uses
	if err != nil {
		return err
	}
	f.check.Detail, f.check.Source = wire.DetailNone, "admin run"
	f.check.MaxWait, f.check.IdempotencyKey = f.maxWait.Duration, rand.Text()
	if f.hold.given { // nothing is held for a time ahead
		f.check.MaxWait, f.check.Hold = 0, f.hold.Duration
	}
	t := waiter{con: con, server: server, flags: f, began: time.Now()}
	held, err := t.reserve(ctx)
	if err != nil {
		return err
	}
	return whileHeld(ctx, con, server, held, f.hold.Duration, func() error { return runCommand(con, path, command) })
}

// runCommand runs a command to its end and returns its exit code as an error if it is not 0. An
// interrupt from the terminal reaches the command directly; a termination signal is forwarded.
func runCommand(con *console.Console, path string, command []string) error {
	cmd := &exec.Cmd{Path: path, Args: command, Stdin: con.Stdin, Stdout: con.Stdout, Stderr: con.Stderr}
	ends, interrupts := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM)
	defer signal.Stop(ends)
	signal.Notify(interrupts, os.Interrupt) // by default the second one would end run, and not the command
	defer signal.Stop(interrupts)
	if err := cmd.Start(); err != nil {
		return &console.ExitError{Code: notRun, Err: fmt.Errorf("the command cannot be run: %w", err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-ends:
			_ = cmd.Process.Signal(s) // it fails if the command has ended
		case err := <-ended:
			return codeOfCommand(cmd.ProcessState, err)
		}
	}
}

// codeOfCommand returns the exit code for the end of a command, as shells do.
func codeOfCommand(state *os.ProcessState, err error) error {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err // its output could not be copied
	}
	if status, is := state.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return &console.ExitError{Code: console.Code(128 + int(status.Signal()))}
	}
	if code := state.ExitCode(); code != 0 {
		return &console.ExitError{Code: console.Code(code)}
	}
	return nil
}

// waiter makes a reservation and waits for it.
type waiter struct {
	con    *console.Console
	server *client.Client
	flags  *runFlags
	began  time.Time
}

// outcome is the common part of the responses to a check of one key and of several keys.
type outcome struct {
	decision   string
	retryAfter *int64
	waiting    *wire.Waiting
	held       *wire.Hold
	why        string
}

// minPause is the minimum time between two checks.
const minPause = time.Second

// maxHeldPause is the maximum time between two checks that hold: others may settle at any time.
const maxHeldPause = 10 * time.Second

// reserve makes a reservation and waits until its time. It cancels a reservation that it cannot
// wait for. It returns what the check holds, nil for nothing.
func (t *waiter) reserve(ctx context.Context) (*wire.Hold, error) {
	for {
		v, err := t.ask(ctx)
		if err != nil {
			return nil, err
		}
		if v.decision == wire.Allowed {
			return v.held, t.await(ctx, v.waiting)
		}
		if v.decision == wire.Blocked || v.retryAfter == nil {
			return nil, t.refused(v.why)
		}
		pause := max(minPause, time.Duration(*v.retryAfter)*time.Millisecond)
		if t.flags.hold.given {
			pause = min(pause, maxHeldPause) // somebody may settle earlier
		}
		if t.flags.timeout.given && time.Since(t.began)+pause > t.flags.timeout.Std() {
			return nil, t.refused(v.why)
		}
		if t.flags.hold.given {
			t.con.Notef("Not allowed yet; retrying in %s.", output.Duration(pause))
		} else {
			t.con.Notef("No reservation within %s yet; retrying in %s.", t.flags.maxWait.Duration, output.Duration(pause))
		}
		if err := supervise.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (t *waiter) refused(why string) error {
	return &console.ExitError{Code: console.Refused, Err: errors.New("the command was not run: " + why)}
}

// await waits until the reserved time.
func (t *waiter) await(ctx context.Context, w *wire.Waiting) error {
	wait, handle := time.Duration(0), ""
	if w != nil {
		wait = time.Duration(w.DelayMS) * time.Millisecond
		if w.Reservation != nil {
			handle = w.Reservation.Handle
		}
	}
	if t.flags.timeout.given && time.Since(t.began)+wait > t.flags.timeout.Std() {
		t.cancelReservation(ctx, handle)
		return t.refused("the reserved time is in " + output.Duration(wait) + ", after --timeout")
	}
	if wait >= minPause {
		t.con.Notef("Waiting %s for %s.", output.Duration(wait), output.Escape(strings.Join(t.flags.keys, ", ")))
	}
	err := supervise.Sleep(ctx, wait)
	if err != nil {
		t.cancelReservation(ctx, handle)
	}
	return err
}

// cancelReservation cancels a reservation even if ctx has ended.
func (t *waiter) cancelReservation(ctx context.Context, handle string) {
	if handle == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := t.server.Checks.Cancel(ctx, handle); err != nil {
		t.con.Notef("The reservation could not be cancelled; its time passes unused: %s", output.Escape(err.Error()))
	}
}

// tries is how often a check without a response is sent. Its idempotency key makes sure that it
// is charged once.
const tries = 3

func (t *waiter) ask(ctx context.Context) (v outcome, err error) {
	for try := range tries {
		v, err = t.askOnce(ctx)
		var unreachable *client.Unreachable
		if err == nil || !errors.As(err, &unreachable) || try == tries-1 || supervise.Sleep(ctx, minPause/2<<try) != nil {
			break
		}
	}
	return v, err
}

// answerGrace is how long to wait for a response after an interrupt: the response may contain a
// reservation that must be cancelled.
const answerGrace = 2 * time.Second

func (t *waiter) askOnce(ctx context.Context) (outcome, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(answerGrace, cancel) })
	defer stop()
	if len(t.flags.keys) > 1 {
		d, err := t.server.Checks.CheckKeys(asking, combined(t.flags.check, t.flags.keys))
		if err != nil {
			return outcome{}, err
		}
		why := "it is " + d.Decision
		for i := range d.Decisions {
			if part := &d.Decisions[i]; part.Decision == d.Decision && !d.Allowed {
				why = decisionSentence(part, t.con.Now())
				break
			}
		}
		return outcome{d.Decision, d.RetryAfterMS, d.Waiting, d.Hold, why}, nil
	}
	check := t.flags.check
	check.Key = t.flags.keys[0]
	d, err := t.server.Checks.Check(asking, check)
	if err != nil {
		return outcome{}, err
	}
	return outcome{d.Decision, d.RetryAfterMS, d.Waiting, d.Hold, decisionSentence(d, t.con.Now())}, nil
}
