package local

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fail2ban"
	"github.com/stint-dev/stint/internal/proxies"
)

// logFlags configure how access logs are read.
type logFlags struct {
	format     string
	keyColumn  string
	timeColumn string
	costColumn string
	account    string
	kind       string
	proxies    string
	logFormat  string
	zone       string
	skipPaths  []string
	filter     string
	outcome    string
	ownPaths   []string
	noProbes   bool
}

func (f *logFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.format, "format", "auto", "format of the logs: "+accesslog.FormatNames)
	c.Flags().StringVar(&f.logFormat, "log-format", "", `the lines of the logs in the style of nginx's log_format, for example '$host $remote_addr - $remote_user [$time_local] "$request" $status', or of Apache's LogFormat`)
	c.Flags().StringVar(&f.zone, "time-zone", "", "the zone of times that name none, for example Europe/Berlin or Local; UTC if omitted, for HAProxy, Werkzeug and uWSGI the machine's")
	c.Flags().StringArrayVar(&f.skipPaths, "skip-path", nil, "leave out requests of these paths, for example '/static/*'; may be repeated")
	c.Flags().StringArrayVar(&f.ownPaths, "own-path", nil, "paths that are the site's own although scanners look for them, for example '/phpmyadmin/*'; may be repeated")
	c.Flags().BoolVar(&f.noProbes, "no-probes", false, "learn nothing of what the site answers, and recognize no probes by it")
	c.Flags().StringVar(&f.filter, "filter", "", "the logs are no access logs: read failures by this filter of fail2ban, for example '/etc/fail2ban/filter.d/sshd.conf[mode=aggressive]'")
	c.Flags().StringVar(&f.outcome, "filter-outcome", "", "the outcome of each failure of --filter; if omitted the filter's name, and login_failed where its line names a user")
	c.Flags().StringVar(&f.proxies, "trusted-proxies", "", "addresses and networks of your proxies, with commas between, as for the server: a client behind them is found in X-Forwarded-For, from the right")
	c.Flags().StringVar(&f.keyColumn, "key-column", "", "the column or field with the key; the client's address if omitted")
	c.Flags().StringVar(&f.timeColumn, "time-column", "", "the column or field with the time")
	c.Flags().StringVar(&f.costColumn, "cost-column", "", "the column or field with the cost; 1 per request if omitted")
	c.Flags().StringVar(&f.account, "account-column", "", "the column or field with the account, for example user in Common Log Format, for rules and further keys that count accounts")
	c.Flags().StringVar(&f.kind, "kind", "", "the kind of the column's keys, for example token for token:...")
}

func (f *logFlags) options(con *console.Console) (accesslog.Options, error) {
	format, err := accesslog.ParseFormat(f.format)
	if err != nil {
		return accesslog.Options{}, console.Usagef("--format: %w", err)
	}
	trusted, err := proxies.Parse(f.proxies)
	if err != nil {
		return accesslog.Options{}, console.Usagef("--trusted-proxies: %w", err)
	}
	if f.logFormat != "" {
		if format != accesslog.Auto || f.timeColumn != "" || f.costColumn != "" {
			return accesslog.Options{}, console.Usagef("--log-format names the time itself and describes the lines; leave out --format, --time-column and --cost-column")
		}
	}
	open := func(path string) (io.ReadCloser, error) { return con.Open(path) }
	o := accesslog.Options{
		Open: open, Format: format, Key: f.keyColumn, Time: f.timeColumn, Cost: f.costColumn, Account: f.account, Kind: f.kind, Proxies: trusted, LogFormat: f.logFormat,
	}
	if err := f.readFilter(con, &o); err != nil {
		return o, err
	}
	if f.zone != "" {
		if o.Zone, err = time.LoadLocation(f.zone); err != nil {
			return o, console.Usagef("--time-zone: %q is no known zone; write for example Europe/Berlin, UTC or Local", f.zone)
		}
	}
	if len(f.skipPaths) > 0 {
		if o.SkipPaths, err = conditions.Parse(conditions.Texts{"path": f.skipPaths}); err != nil {
			return o, console.Usagef("--skip-path: %w", err)
		}
	}
	if err := o.CheckLogFormat(); err != nil {
		return o, console.Usagef("--log-format: %w", err)
	}
	return o, nil
}

// readOutcomes returns what the answers mean: what texts say, or the defaults.
func (f *logFlags) readOutcomes(texts []string) (answers.Outcomes, error) {
	if len(texts) > 0 {
		all, err := answers.ParseOutcomes(texts)
		if err != nil {
			return nil, console.Usagef("--outcome: %w", err)
		}
		return all, nil
	}
	if f.noProbes {
		return answers.DefaultOutcomes(nil), nil
	}
	site, err := answers.NewSite(f.ownPaths)
	if err != nil {
		return nil, console.Usagef("--own-path: %w", err)
	}
	return answers.DefaultOutcomes(site), nil
}

// readFilter reads the filter, if any, and says what of it cannot be read.
func (f *logFlags) readFilter(con *console.Console, o *accesslog.Options) error {
	switch {
	case f.filter == "" && f.outcome == "":
		return nil
	case f.filter == "":
		return console.Usagef("--filter-outcome requires --filter")
	case f.logFormat != "" || f.keyColumn != "" || o.Format != accesslog.Auto:
		return console.Usagef("--filter finds the failures and their addresses itself; leave out --format, --log-format and --key-column")
	}
	var zone *time.Location
	if f.zone != "" {
		var err error
		if zone, err = time.LoadLocation(f.zone); err != nil {
			return console.Usagef("--time-zone: %q is no known zone", f.zone)
		}
	}
	filter, err := fail2ban.ReadFilter(f.filter, zone)
	if err != nil {
		return console.Usagef("--filter: %w", err)
	}
	for _, text := range filter.Skipped {
		con.Notef("Warning: --filter: an expression cannot be read: %s.", output.Escape(text))
	}
	o.Filter, o.FilterOutcome = filter, f.outcome
	if err := conditions.CheckOutcome(cmp.Or(f.outcome, fail2ban.OutcomeName(filter.Name))); err != nil {
		return console.Usagef("--filter-outcome: it %w", err)
	}
	return nil
}

// usageOfLog returns a usage error if a log cannot be read with the given flags, and any other
// error unchanged.
func usageOfLog(err error) error {
	if wrong := (*accesslog.InputError)(nil); errors.As(err, &wrong) {
		return console.Usagef("%w", err)
	}
	return err
}

// wantRequests returns a usage error if lines were read and none contains a request.
func wantRequests(read accesslog.Counts) error {
	if read.Bad == 0 || read.Bad < read.Lines {
		return nil
	}
	first := read.First[0]
	return console.Usagef("none of the %d lines contains a readable request; the first is line %d of %s: %s", read.Lines, first.Line, first.File, first.Why)
}

const logHelp = `Logs are read as programs write them, plain or gzip: Common and Combined Log Format (also
with the host in front), JSON lines (nginx, Caddy, Traefik, Envoy, Cloudflare Logpush, ECS),
HAProxy's HTTP log, those of AWS's load balancers, CloudFront and IIS (W3C), Envoy's text,
Werkzeug, uWSGI, and CSV with a line of column names; also within the lines of docker, CRI,
syslog or journald.
--log-format describes any other lines as nginx's log_format or Apache's LogFormat do. The
client's address is read only from a field that is known to hold it, never from what a client
sends: a log without one is refused, and --key-column names it. Behind proxies
--trusted-proxies finds the client in X-Forwarded-For; Envoy's text has nothing else. What was
found is said at the start, and which policies have nothing to look at. --skip-path leaves out
requests. Sites that show one page for everything, or redirect everything, are recognized by how
they answer what no site has: what asks there for a program that the site does not run is the
outcome probe. --own-path names what it runs. Lines out of order are sorted as far as they fit
into memory; lines without a request are counted and shown.`
