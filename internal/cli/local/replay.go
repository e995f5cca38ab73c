package local

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/replay"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	logFlags
	policy  string
	speed   float64
	callers int

	outcomes   []string
	noOutcomes bool
}

func NewReplay(con *console.Console) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Replay access logs against a running server",
		Long: `Send the requests of access logs to the check listener of a running server, at the pace at
which they came or a multiple of it, and report what it answered. They count there like
any others. The outcomes of the allowed ones are reported by their status in the log, for policies
with an outcome. The listener is named by --check-url or STINT_CHECK_URL.

` + logHelp,
		Example: `admin replay access.log.gz --speed 60
admin replay access.log.gz --check-url http://127.0.0.1:8080 --speed 0 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runReplay(c.Context(), con, args, &f)
		},
	}
	c.Flags().Float64Var(&f.speed, "speed", 1, "how many times faster than they came; 0 for no pauses")
	c.Flags().StringVar(&f.policy, "policy", "", "the policy to check; the most specific match if omitted")
	c.Flags().IntVar(&f.callers, "callers", replay.DefaultCallers, "how many requests may be on their way at once, 1 to 10000")
	c.Flags().StringArrayVar(&f.outcomes, "outcome", nil, "what answers mean, for example 404=not_found or 'POST 401,403=login_failed', which are the defaults; may be repeated")
	c.Flags().BoolVar(&f.noOutcomes, "no-outcomes", false, "report no outcomes")
	c.MarkFlagsMutuallyExclusive("outcome", "no-outcomes")
	f.logFlags.add(c)
	return c
}

func runReplay(ctx context.Context, con *console.Console, paths []string, f *replayFlags) (err error) {
	read, err := f.logFlags.options(con)
	if err != nil {
		return err
	}
	outcomes := accesslog.DefaultOutcomes()
	if len(f.outcomes) > 0 {
		if outcomes, err = accesslog.ParseOutcomes(f.outcomes); err != nil {
			return console.Usagef("--outcome: %w", err)
		}
	}
	if f.noOutcomes {
		outcomes = nil
	}
	base, token, err := con.CheckListener()
	if err != nil {
		return err
	}
	o := replay.Options{URL: base, Token: token, Policy: f.policy, Outcomes: outcomes, Speed: f.speed, Callers: f.callers}
	if err := o.Check(); err != nil {
		return console.Usagef("%w", err)
	}
	if f.callers == 0 { // Options would read 0 as the default
		return console.Usagef("--callers is 0; it must be a number from 1 up")
	}
	files, err := accesslog.OpenFiles(paths, read)
	if err != nil {
		return usageOfLog(err)
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	sorted, err := accesslog.Sort(ctx, files, accesslog.SortOptions{Keys: read.Keys})
	if err != nil {
		return usageOfLog(err)
	}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	con.Warn(files.Counts().Warnings)
	if err := wantRequests(files.Counts()); err != nil {
		return err
	}
	if t := files.Counts(); t.Bad > 0 {
		con.Notef("%d of %d lines contain no request and were skipped; backtest shows them.", t.Bad, t.Lines)
	}
	bar := con.Progress()
	o.Progress = func(answered int64) { bar.Show("replaying", answered, sorted.Len(), false) }
	report, runErr := replay.Run(ctx, sorted, o)
	bar.End()
	if report.Requests == 0 && runErr != nil {
		return withCode(runErr)
	}
	if report.Failed > 0 && report.Failed == report.Requests && runErr == nil {
		runErr = errors.New("no request got a decision")
	}
	return errors.Join(withCode(runErr), printReplay(con.Printer(), report))
}

// withCode adds its exit code to an error of replay.Run, and what to do about it.
func withCode(err error) error {
	switch is := console.Checks; {
	case errors.Is(err, replay.ErrToken):
		return denied(err)
	case errors.Is(err, replay.ErrPolicy):
		return console.NotFoundf("--policy: %w", err)
	case errors.Is(err, replay.ErrNoAnswer):
		return &console.ExitError{Code: console.Unreachable, Err: fmt.Errorf("%w; start the server, or set another address with %s or %s", err, is.URLFlag, is.EnvURL)}
	}
	return err
}

// denied adds its exit code to an error that says that the check listener refuses the token,
// and where the token is read from.
func denied(err error) error {
	is := console.Checks
	return &console.ExitError{Code: console.Denied, Err: fmt.Errorf("%w (the token is read from %s or %s)", err, is.EnvToken, is.TokenFlag)}
}

func printReplay(p *output.Printer, r *replay.Report) error {
	return printReport(p, replayReport{r}, r.WriteText)
}

// replayReport adds CSV to a replay's report.
type replayReport struct{ *replay.Report }

// WriteCSV writes the totals as one row.
func (r replayReport) WriteCSV(w io.Writer) error {
	count := func(name string, of func(*replay.Report) int64) output.Column[*replay.Report] {
		return output.Column[*replay.Report]{Name: name, Cell: func(r *replay.Report) output.Cell { return output.Number(of(r)) }}
	}
	return output.One(&output.Printer{Out: w, Format: output.CSV}, r.Report, []output.Column[*replay.Report]{
		count("requests", func(r *replay.Report) int64 { return r.Requests }),
		count("allowed", func(r *replay.Report) int64 { return r.Allowed }),
		count("limited", func(r *replay.Report) int64 { return r.Limited }),
		count("blocked", func(r *replay.Report) int64 { return r.Blocked }),
		count("unavailable", func(r *replay.Report) int64 { return r.Unavailable }),
		count("failed", func(r *replay.Report) int64 { return r.Failed }),
		count("degraded", func(r *replay.Report) int64 { return r.Degraded }),
		count("reported", func(r *replay.Report) int64 { return r.Reported }),
		count("elapsed_ms", func(r *replay.Report) int64 { return r.ElapsedMS }),
	})
}
