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

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

// runFlags are the flags of run.
type runFlags struct {
	keys    []string
	check   v1.CheckRequest
	maxWait durationFlag
	giveUp  durationFlag
}

func newRun(a *app) *cobra.Command {
	f := runFlags{maxWait: durationFlag{Duration: v1.MaxWait, given: true}}
	c := &cobra.Command{
		Use:   "run --key KEY... -- COMMAND ARG...",
		Short: "Wait for a key's reservation, then run a command",
		Long: `Reserve the next reservation of a key, or of several that must all allow it, wait for it and then
run a command: reservations come in the order in which they were asked for, whoever asks on whatever
machine, and never more often than the rules allow. Where the next reservation lies further ahead than
--max-wait, it asks again when it is near enough. A reservation that is not used, since the command
was interrupted while it waited, is cancelled.

The exit code is that of the command, 128 and the signal's number where one ended it. Where
it was not run, it is 1 where the server refuses the question, 2 for a wrong flag, 3 where a
block or a rule refuses for good or --give-up-after has passed, 4 where the server could not
be reached, 126 where the command is not executable, 127 where there is none, and 130 where
waiting was interrupted.`,
		Example: "admin run --key host:api.example.com -- curl -s https://api.example.com/items\n" +
			"admin run --key host:api.example.com --key token:abc --max-wait 5m --give-up-after 1h -- ./crawl.sh",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 0 || len(args) == 0 {
				return errors.New("the command stands behind --")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.runInReservation(c.Context(), args, &f)
		},
	}
	c.Flags().StringArrayVar(&f.keys, "key", nil, "whose reservation it must be, as host:api.example.com; may be repeated, up to 16 times")
	c.Flags().StringVar(&f.check.Policy, "policy", "", "the policy to ask, where it is not the one that fits best")
	c.Flags().IntVar(&f.check.Cost, "cost", 1, "how much the command counts, 1 to 1000")
	c.Flags().Var(&f.maxWait, "max-wait", "how far ahead a reservation may be reserved, at most 1h")
	c.Flags().Var(&f.giveUp, "give-up-after", "how long to wait altogether; for ever where it is left out")
	mustHave(c, "key")
	return c
}

// Exit codes where there is a command that may not be run, or none, as of shells.
const (
	notExecutable Code = 126
	notRun        Code = 127
)

// find returns where a command lies.
func find(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", &exitError{notExecutable, fmt.Errorf("%q is not executable", command)}
	case err != nil:
		return "", &exitError{notRun, fmt.Errorf("there is no command %q to run", command)}
	}
	return path, nil
}

func (a *app) runInReservation(ctx context.Context, command []string, f *runFlags) error {
	if f.check.Cost < 1 {
		return usagef("--cost is %d; it must be a whole number from 1 to 1000", f.check.Cost)
	}
	if err := withinMaxWait(f.maxWait); err != nil {
		return err
	}
	path, err := find(command[0]) // before a reservation is taken for nothing
	if err != nil {
		return err
	}
	from, err := a.checkClient()
	if err != nil {
		return err
	}
	f.check.Detail, f.check.Source = v1.DetailNone, "admin run"
	f.check.MaxWait, f.check.IdempotencyKey = f.maxWait.Duration, rand.Text()
	t := taker{app: a, client: from, flags: f, began: time.Now()}
	if err := t.take(ctx); err != nil {
		return err
	}
	return a.run(path, command)
}

// run runs a command to its end and returns its exit code as an error where it
// is not 0. An interrupt from the terminal reaches the command by itself; a
// request to end is passed on.
func (a *app) run(path string, command []string) error {
	cmd := &exec.Cmd{Path: path, Args: command, Stdin: a.sys.Stdin, Stdout: a.sys.Stdout, Stderr: a.sys.Stderr}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM)
	defer signal.Stop(ends)
	if err := cmd.Start(); err != nil {
		return &exitError{notRun, fmt.Errorf("the command cannot be run: %w", err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-ends:
			_ = cmd.Process.Signal(s) // it fails where the command has ended
		case err := <-ended:
			return codeOfCommand(cmd.ProcessState, err)
		}
	}
}

// codeOfCommand reservations how a command ended into an exit code, as shells do.
func codeOfCommand(state *os.ProcessState, err error) error {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err // its output could not be passed on
	}
	if status, is := state.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return &exitError{code: Code(128 + int(status.Signal()))}
	}
	if code := state.ExitCode(); code != 0 {
		return &exitError{code: Code(code)}
	}
	return nil
}

// taker takes a reservation and waits for it.
type taker struct {
	app    *app
	client *client.Client
	flags  *runFlags
	began  time.Time
}

// verdict is what a check of one key and one of several have in common.
type verdict struct {
	decision   string
	retryAfter *int64
	waiting    *v1.Waiting
	why        string
}

// politely is the least time between two questions.
const politely = time.Second

// take returns when it is our reservation. What was reserved is cancelled where it
// cannot be awaited.
func (t *taker) take(ctx context.Context) error {
	for {
		v, err := t.ask(ctx)
		if err != nil {
			return err
		}
		if v.decision == v1.Allowed {
			return t.await(ctx, v.waiting)
		}
		if v.decision == v1.Blocked || v.retryAfter == nil {
			return t.refused(v.why)
		}
		pause := max(politely, time.Duration(*v.retryAfter)*time.Millisecond)
		if t.flags.giveUp.given && time.Since(t.began)+pause > t.flags.giveUp.Std() {
			return t.refused(v.why)
		}
		t.app.notef("No reservation within %s yet; asking again in %s.", t.flags.maxWait.Duration, output.Duration(pause))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (t *taker) refused(why string) error {
	return &exitError{Refused, errors.New("the command was not run: " + why)}
}

// await waits for a reservation that was taken.
func (t *taker) await(ctx context.Context, w *v1.Waiting) error {
	wait, handle := time.Duration(0), ""
	if w != nil {
		wait = time.Duration(w.DelayMS) * time.Millisecond
		if w.Reservation != nil {
			handle = w.Reservation.Handle
		}
	}
	if t.flags.giveUp.given && time.Since(t.began)+wait > t.flags.giveUp.Std() {
		t.cancelReservation(ctx, handle)
		return t.refused("its reservation comes in " + output.Duration(wait) + ", and --give-up-after is over before")
	}
	if wait >= politely {
		t.app.notef("Waiting %s for the reservation of %s.", output.Duration(wait), output.Escape(strings.Join(t.flags.keys, ", ")))
	}
	err := sleep(ctx, wait)
	if err != nil {
		t.cancelReservation(ctx, handle)
	}
	return err
}

// cancelReservation cancels a reservation though ctx has ended.
func (t *taker) cancelReservation(ctx context.Context, handle string) {
	if handle == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := t.client.Cancel(ctx, handle); err != nil {
		t.app.notef("The reservation could not be cancelled and passes unused: %s", output.Escape(err.Error()))
	}
}

// tries is how often a question is sent that gets no answer. Its idempotency
// key has it charged once.
const tries = 3

func (t *taker) ask(ctx context.Context) (v verdict, err error) {
	for try := range tries {
		v, err = t.askOnce(ctx)
		var unreachable *client.Unreachable
		if err == nil || !errors.As(err, &unreachable) || try == tries-1 || sleep(ctx, politely/2<<try) != nil {
			break
		}
	}
	return v, err
}

// answerGrace is how long an answer is awaited after an interrupt: it may hold a
// reservation that is to be cancelled.
const answerGrace = 2 * time.Second

func (t *taker) askOnce(ctx context.Context) (verdict, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(answerGrace, cancel) })
	defer stop()
	if len(t.flags.keys) > 1 {
		d, err := t.client.CheckKeys(asking, together(t.flags.check, t.flags.keys))
		if err != nil {
			return verdict{}, err
		}
		why := "it is " + d.Decision
		for i := range d.Decisions {
			if part := &d.Decisions[i]; part.Decision == d.Decision && !d.Allowed {
				why = decisionSentence(part, t.app.sys.Now())
				break
			}
		}
		return verdict{d.Decision, d.RetryAfterMS, d.Waiting, why}, nil
	}
	check := t.flags.check
	check.Key = t.flags.keys[0]
	d, err := t.client.Check(asking, check)
	if err != nil {
		return verdict{}, err
	}
	return verdict{d.Decision, d.RetryAfterMS, d.Waiting, decisionSentence(d, t.app.sys.Now())}, nil
}

// sleep waits so long, or until ctx ends, and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
