package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/logfollow"
)

// followFlags are the flags of follow.
type followFlags struct {
	logFlags
	policy       string
	outcomes     []string
	noOutcomes   bool
	outcomesOnly bool
	state        string
	fromStart    bool
	fromEnd      bool
	maxAge       time.Duration
	once         bool
	speed        float64
	hasSpeed     bool
	dryRun       bool
	summaryEvery time.Duration
	metrics      string
}

// NewFollow returns the command that checks the requests of growing access logs.
func NewFollow(con *console.Console) *cobra.Command {
	var f followFlags
	c := &cobra.Command{
		Use:   "follow FILE...",
		Short: "Check the requests of access logs while they grow, until Ctrl-C",
		Long: `Send a check for each request in growing access logs to the check listener of a running
server, so that clients who exceed limits are counted and blocked without a change to the
site. What an answer means is reported for policies with an outcome, as --outcome says; a
missing or forbidden asset, favicon or robots.txt means nothing. The requests were answered
already: a block takes effect where Stint is asked, or by 'firewall nftables'. The listener is
named by --check-url or STINT_CHECK_URL. Where a gateway asks Stint about each request already,
--outcomes-only reports their outcomes and charges no request twice.

Rotation is followed: by renaming, by copying and truncating, and while the command does not
run, also to rotated files compressed with gzip. The position in each log is saved in the file
that --state names, so that no line is charged twice, and what was learned of the site. A log
without a saved position is read from its end, or with --from-start from its beginning. A line
older than --max-age is not checked, because it would be counted as if it came now. While the
server does not answer, the lines wait in the file.

It refuses to start with a log without a saved position if most of its lines come from one
address or from private addresses, which happens behind a proxy: name the field with the
client's address with --key-column, also if these are clients. Other logs only get a warning.

--filter reads the failures that a filter of fail2ban finds in a log of any other program, such
as sshd, and reports each as an outcome; 'import fail2ban' writes the policies for them.

With --once and --speed whole logs, also compressed ones, are sent to a server for a trial at
the pace at which they came or a multiple of it: every line counts, whatever its age, and no
position is read or saved.

` + logHelp,
		Example: `admin follow /var/log/nginx/access.log
admin follow /var/log/nginx/access.log --outcomes-only
admin follow /var/log/nginx/access.log --key-column x_forwarded_for
admin follow /var/log/caddy/*.json --state /var/lib/stint/follow.json
admin follow access.log --trusted-proxies 10.0.0.0/8
admin follow access.log --log-format '$host $remote_addr - $remote_user [$time_local] "$request" $status'
admin follow access.log --from-start --once --dry-run
admin follow /var/log/auth.log --filter /etc/fail2ban/filter.d/sshd.conf
admin follow access.log.gz --once --speed 60`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.hasSpeed = c.Flags().Changed("speed")
			return runFollow(c.Context(), con, args, &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.policy, "policy", "", "the policy to check; the most specific match if omitted")
	flags.StringArrayVar(&f.outcomes, "outcome", nil, "what answers mean, for example 404=not_found or 'POST /login* 200=login_failed', in place of the defaults, which know missing pages and the logins of common applications: a method and a path if only they count, statuses, and the outcome; may be repeated")
	flags.BoolVar(&f.noOutcomes, "no-outcomes", false, "report no outcomes")
	flags.BoolVar(&f.outcomesOnly, "outcomes-only", false, "report outcomes and send no checks, where a gateway asks Stint about each request before it is answered")
	flags.StringVar(&f.state, "state", "", "the file with the positions; by default follow.json in $STATE_DIRECTORY, or in stint in the user's folder for state")
	flags.BoolVar(&f.fromStart, "from-start", false, "read a log without a saved position from its beginning, and its rotated files")
	flags.BoolVar(&f.fromEnd, "from-end", false, "read a log without a saved position from its end (the default)")
	flags.DurationVar(&f.maxAge, "max-age", 10*time.Minute, "how old a line may be to be checked, 0 for any age")
	flags.BoolVar(&f.once, "once", false, "end when the logs are read to their ends")
	flags.Float64Var(&f.speed, "speed", 1, "with --once: send whole logs this many times faster than they came, 0 for no pauses")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be checked; nothing is sent or saved")
	flags.DurationVar(&f.summaryEvery, "summary-every", time.Minute, "how often a line says what was done, at least 1s")
	metricsFlag(flags, &f.metrics, "127.0.0.1:9119")
	c.MarkFlagsMutuallyExclusive("dry-run", "metrics-listen")
	c.MarkFlagsMutuallyExclusive("from-start", "from-end")
	c.MarkFlagsMutuallyExclusive("outcome", "no-outcomes")
	c.MarkFlagsMutuallyExclusive("outcomes-only", "no-outcomes")
	for _, other := range []string{"dry-run", "state", "max-age", "from-end"} {
		c.MarkFlagsMutuallyExclusive("speed", other)
	}
	f.logFlags.add(c)
	return c
}

func runFollow(ctx context.Context, con *console.Console, paths []string, f *followFlags) error {
	o, err := f.options(con)
	if err != nil {
		return err
	}
	if f.dryRun {
		o.DryRun = dryRun(con)
	} else if o.Server, err = f.server(con); err != nil {
		return err
	}
	o.Progress = &logfollow.Progress{}
	stop, err := serveMetrics(con, f.metrics, followMetrics(o.Progress))
	if err != nil {
		return err
	}
	defer stop()
	// A second signal ends the process at once.
	defer context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })()
	summary, err := logfollow.Run(ctx, paths, o)
	var proxy *logfollow.ProxyError
	var problem *client.Problem
	if errors.As(err, &problem) && (problem.Status == http.StatusUnauthorized || problem.Status == http.StatusForbidden) {
		err = denied(err)
	}
	if problem != nil && problem.Field == "policy" {
		err = console.NotFoundf("--policy: %w", err)
	}
	switch is := console.Checks; {
	case errors.Is(err, logfollow.ErrNoAnswer):
		err = &console.ExitError{Code: console.Unreachable, Err: fmt.Errorf("%w; start the server, or set another address with %s or %s", err, is.URLFlag, is.EnvURL)}
	case err == nil && f.once && summary.Bad > 0 && summary.Bad == summary.Lines:
		err = console.Usagef("none of the %d lines contains a readable request; the first: %s", summary.Lines, summary.FirstBad[0].Why)
	case errors.As(err, &proxy):
		err = console.Usagef("%w", err)
	case errors.As(err, new(*accesslog.InputError)):
		err = usageOfLog(err)
	case f.dryRun || summary.Lines == 0 && err != nil:
	case con.Printer().Format == output.Table:
		con.Notef("%s.", summary)
	default:
		err = errors.Join(err, con.Printer().JSON(summary))
	}
	return err
}

// options validates the flags.
func (f *followFlags) options(con *console.Console) (logfollow.Options, error) {
	read, err := f.logFlags.options(con)
	switch {
	case err != nil:
		return logfollow.Options{}, err
	case con.Format == string(output.CSV):
		return logfollow.Options{}, console.Usagef("--output csv is not available; use json for one object for each request or for the summary")
	case f.hasSpeed && !f.once:
		return logfollow.Options{}, console.Usagef("--speed requires --once")
	case !(f.speed >= 0) || math.IsInf(f.speed, 1): // NaN too
		return logfollow.Options{}, console.Usagef("--speed is %g; it must be a number from 0 up", f.speed)
	case f.maxAge < 0:
		return logfollow.Options{}, console.Usagef("--max-age must not be negative; 0 checks lines of any age")
	case f.summaryEvery < time.Second:
		return logfollow.Options{}, console.Usagef("--summary-every must be at least 1s")
	}
	if f.state == "" && !f.hasSpeed {
		if f.state, err = logfollow.StatePath(con.Getenv); err != nil {
			return logfollow.Options{}, console.Usagef("%w", err)
		}
	}
	outcomes, err := f.readOutcomes(f.outcomes)
	if err != nil {
		return logfollow.Options{}, err
	}
	if f.noOutcomes {
		outcomes = nil
	}
	var speed *float64
	if f.hasSpeed {
		speed = &f.speed
	}
	return logfollow.Options{
		Speed: speed, Read: read, Policy: f.policy, Outcomes: outcomes, OutcomesOnly: f.outcomesOnly || read.Filter != nil, State: f.state, FromStart: f.fromStart, MaxAge: f.maxAge, Once: f.once, SummaryEvery: f.summaryEvery,
		Now: con.Now, Logf: func(format string, args ...any) { con.Notef("%s", output.Escape(fmt.Sprintf(format, args...))) },
	}, nil
}

// denied adds its exit code to an error that says that the check listener refuses the token,
// and where the token is read from.
func denied(err error) error {
	is := console.Checks
	return &console.ExitError{Code: console.Denied, Err: fmt.Errorf("%w (the token is read from %s or %s)", err, is.EnvToken, is.TokenFlag)}
}

// followTimeout bounds one attempt to send a batch.
const followTimeout = 10 * time.Second

func (f *followFlags) server(con *console.Console) (*client.Client, error) {
	base, token, err := con.CheckListener()
	if err != nil {
		return nil, err
	}
	server, err := client.New(base, client.WithToken(token), client.WithRetries(0), client.WithMemory(0), client.WithTimeout(followTimeout))
	if err != nil {
		return nil, console.Usagef("%w", err)
	}
	return server, nil
}

// followedRequest is a request that a dry run prints.
type followedRequest struct {
	Time   time.Time `json:"time"`
	Key    string    `json:"key"`
	Cost   int       `json:"cost"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Status int       `json:"status"`
	Agent  string    `json:"agent"`
	Host   string    `json:"host"`
	// Outcomes are those that would be reported.
	Outcomes []string `json:"outcomes"`
	File     string   `json:"file"`
}

// dryRun prints a line for each request.
func dryRun(con *console.Console) func(string, *accesslog.Record, []string) error {
	p := con.Printer()
	return func(file string, r *accesslog.Record, outcomes []string) error {
		request := followedRequest{
			Time: time.UnixMilli(r.Time).UTC(), Key: accesslog.FullKey(r.Key), Cost: r.Cost, Method: r.Method, Path: r.Path, Status: r.Status,
			Agent: r.Agent, Host: r.Host, Outcomes: outcomes, File: file,
		}
		if p.Format == output.JSON {
			return p.JSONLine(request)
		}
		shown := ""
		if len(outcomes) > 0 {
			shown = "  " + strings.Join(outcomes, ",")
		}
		_, err := fmt.Fprintf(con.Out(), "%s  %s  %d  %s %s  %d%s\n", request.Time.Format(time.RFC3339), output.Escape(request.Key), r.Cost,
			output.Escape(console.FirstOf(r.Method, "-")), output.Escape(console.FirstOf(r.Path, "-")), r.Status, shown)
		return err
	}
}
