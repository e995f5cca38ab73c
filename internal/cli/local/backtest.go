package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/profilelist"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// backtestFlags are the flags of backtest.
type backtestFlags struct {
	logFlags
	rules, againstRules     []string
	presets, againstPresets []string
	policies                []string
	against                 string
	truth                   string
	crawlers                []string
	keysFile                string
	algorithm               string
	options, againstOptions []string
	out, html               string
	limit                   int
	outcomes, scopes        []string
}

func NewBacktest(con *console.Console) *cobra.Command {
	var f backtestFlags
	c := &cobra.Command{
		Use:   "backtest FILE...",
		Short: "Try rules on access logs, offline",
		Long: `Replay access logs through the service's own policy code, on the logs' own clock, and
report who would have been refused and by which rule. No server is needed and nothing is
changed. With --against a second stack is tried beside the first, and the report says who
would be newly refused and newly allowed. --against also takes the name of an algorithm: the
same rules are then tried under both. Policies with an outcome count what the status of an
answer means, as --outcome says; an asset or robots.txt that is missing means nothing. Policies
with a scope refuse only what --scope says is in it. Escalations have no safety limit here.

--truth names a file that says who the attackers are: CSV with the columns key, label and
first_attack, or JSON lines with these fields; first_attack is a time, and empty for a benign
key. The report then says, for each label, how many attackers were caught, after how many
requests served and after how long, and how much of what benign clients asked for was refused.
A key that the file does not name is benign.

` + logHelp + `

--out writes the whole report to a file as well: JSON, or for a file that ends in .csv a
row for each key that was refused by either stack. --html writes it as a page with charts,
which needs no server and makes no request. "-" is standard output, where it takes the place
of the report that is printed.`,
		Example: `admin backtest access.log.gz --rule 1/s --rule 20/m --rule 200/h --rule 800/d
admin backtest access.log.gz -f policies.yaml --against-rule 20/m
admin backtest access.log.gz --preset website --preset traps --truth truth.csv --against-preset api --html report.html
admin backtest access.log.gz --preset website --scope 'POST /login=login'
admin backtest access.log.gz --rule 20/m --algorithm sorted_set_log --option count_refused --against timestamp_log
admin backtest access.log --rule 20/m --log-format '$host $remote_addr - $remote_user [$time_local] "$request" $status'
admin backtest access.log --rule 20/m --trusted-proxies 10.0.0.0/8,198.51.100.0/24
admin backtest api.csv --key-column token --rule 100/h --out report.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runBacktest(c.Context(), con, args, &f)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.rules, "rule", nil, "a rule to test, for example 20/1m; may be repeated")
	flags.StringArrayVarP(&f.policies, "file", "f", nil, "test the policies of this file instead, as written by 'export'; may be repeated")
	flags.StringSliceVar(&f.presets, "preset", nil, "test a preset, alone or with others: "+strings.Join(presets.Names(), ", "))
	flags.StringSliceVar(&f.againstPresets, "against-preset", nil, "compare with a preset; may be repeated")
	flags.StringVar(&f.keysFile, "keys", "", "a file of the plans of keys, as 'key export' writes it, for policies that match plan:NAME")
	flags.StringSliceVar(&f.crawlers, "crawler", nil, "a pattern of verified crawlers, for example ip:66.249.64.0/19, whose missing pages do not count; may be repeated")
	flags.StringVar(&f.truth, "truth", "", "score the rules by this file, which says who the attackers are")
	flags.StringSliceVar(&f.againstRules, "against-rule", nil, "a rule of the stack to compare with; may be repeated")
	flags.StringVar(&f.against, "against", "", "compare with the policies of this file, or with the same rules under this algorithm")
	flags.StringVar(&f.algorithm, "algorithm", "", "test the rules under this algorithm instead of timestamp_log or the file's")
	flags.StringSliceVar(&f.options, "option", nil, "an option of --algorithm, for example burst=50; may be repeated")
	flags.StringSliceVar(&f.againstOptions, "against-option", nil, "an option of the algorithm named by --against; may be repeated")
	flags.StringVar(&f.out, "out", "", "also write the full report to this file, JSON or CSV by its extension")
	flags.StringVar(&f.html, "html", "", "also write the report as a page with charts to this file")
	flags.IntVar(&f.limit, "limit", 20, "maximum number of keys in a table, 0 for all")
	flags.StringArrayVar(&f.outcomes, "outcome", nil, "what answers mean, for example 404=not_found or 'POST /login* 200=login_failed', in place of the defaults, which know missing pages and the logins of common applications: a method and a path if only they count, statuses, and the outcome; may be repeated")
	flags.StringArrayVar(&f.scopes, "scope", nil, "which requests have a scope, for example /login=login or 'POST /session*=login': a method if only it counts, a pattern of the path, and the scope; may be repeated")
	c.MarkFlagsMutuallyExclusive("rule", "file")
	c.MarkFlagsMutuallyExclusive("rule", "preset")
	c.MarkFlagsMutuallyExclusive("against", "against-rule", "against-preset")
	console.CompleteFlag(c, "preset", presets.Names()...)
	console.CompleteFlag(c, "against-preset", presets.Names()...)
	console.CompleteFlag(c, "algorithm", algorithms.Names()...)
	f.logFlags.add(c)
	return c
}

// reportPerm are the permissions of a report's file.
const reportPerm = 0o644

func runBacktest(ctx context.Context, con *console.Console, paths []string, f *backtestFlags) error {
	if f.out != "" && f.html != "" && con.IsStdout(f.out) && con.IsStdout(f.html) {
		return console.Usagef("--out and --html cannot both be standard output")
	}
	options, err := backtestOptions(con, f)
	if err != nil {
		return err
	}
	return replay(ctx, con, paths, f, options)
}

// replay replays logs and prints or writes the report.
func replay(ctx context.Context, con *console.Console, paths []string, f *backtestFlags, options backtest.Options) error {
	for _, text := range options.Warnings() {
		con.Notef("Warning: %s", text)
	}
	read, err := f.logFlags.options(con)
	if err != nil {
		return err
	}
	if f.keysFile != "" {
		if options.Plans, err = readPlans(con, f.keysFile, read.Keys); err != nil {
			return err
		}
	}
	for _, text := range f.crawlers {
		pattern, err := keys.Reading{Parser: read.Keys, AnyKind: true}.Pattern(text)
		if err != nil {
			return console.Usagef("--crawler: %w", err)
		}
		options.Crawlers = append(options.Crawlers, pattern)
	}
	if options.Truth, err = readTruth(con, f.truth, read); err != nil {
		return err
	}
	bar := con.Progress()
	report, err := backtest.RunFiles(ctx, paths, backtest.FileOptions{
		Read: read,
		Opened: func(path string, parser *accesslog.LineParser) {
			con.Notef("Reading %s as %s.", output.Escape(strconv.Quote(path)), parser.Describe())
			con.Warn(options.Unseen(parser.Columns()))
		},
		Progress: func(done, total int64) { bar.Show("reading", done, total, true) },
	}, options)
	bar.End()
	if err != nil {
		return usageOfLog(err)
	}
	con.Warn(report.Input.Warnings)
	if err := wantRequests(report.Input.Counts); err != nil {
		return err
	}
	return f.writeReports(ctx, con, report)
}

// writeReports writes the report to the files of --out and --html, and prints it unless one
// of them is standard output.
func (f *backtestFlags) writeReports(ctx context.Context, con *console.Console, report *backtest.Report) error {
	if f.out != "" {
		write := report.WriteJSON
		if strings.EqualFold(filepath.Ext(f.out), ".csv") {
			write = report.WriteCSV
		}
		if err := con.WriteFile(ctx, f.out, reportPerm, write); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if f.html != "" {
		err := con.WriteFile(ctx, f.html, reportPerm, func(w io.Writer) error { return report.WriteHTML(w, allForZero(f.limit)) })
		if err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if f.out != "" && con.IsStdout(f.out) || f.html != "" && con.IsStdout(f.html) {
		return nil
	}
	return f.printReport(con, report)
}

func backtestOptions(con *console.Console, f *backtestFlags) (backtest.Options, error) {
	plan, err := readPlan(con, "rule", rules.SplitRules(strings.Join(f.rules, ",")), f.policies, f.presets)
	if err != nil {
		return backtest.Options{}, err
	}
	options := backtest.Options{Plan: plan}
	if options.Scopes, err = accesslog.ParseScopes(f.scopes); err != nil {
		return options, console.Usagef("--scope: %w", err)
	}
	if options.Outcomes, err = f.readOutcomes(f.outcomes); err != nil {
		return backtest.Options{}, err
	}
	other := algorithms.ByName(f.against)
	switch {
	case f.algorithm != "":
		if options.Plan, err = under("algorithm", plan, f.algorithm, f.options); err != nil {
			return backtest.Options{}, err
		}
	case len(f.options) > 0:
		return backtest.Options{}, console.Usagef("--option requires --algorithm")
	case other != nil && len(f.policies) == 0 && len(f.presets) == 0:
		options.Plan = titled(plan, algorithms.TimestampLog, nil)
	}
	var against backtest.Plan
	switch {
	case other != nil:
		against, err = under("against", plan, f.against, f.againstOptions)
	case len(f.againstOptions) > 0:
		err = console.Usagef("--against-option requires an algorithm in --against")
	case len(f.againstRules) > 0 || f.against != "" || len(f.againstPresets) > 0:
		var paths []string
		if f.against != "" {
			paths = []string{f.against}
		}
		against, err = readPlan(con, "against-rule", f.againstRules, paths, f.againstPresets)
		if errors.Is(err, fs.ErrNotExist) {
			err = console.Usagef("--against: %q is neither a file nor an algorithm; the algorithms are %s", f.against, strings.Join(algorithms.Names(), ", "))
		}
	default:
		return options, nil
	}
	options.Against = &against
	return options, err
}

// under returns a plan with the named algorithm, which is added to its title.
func under(flag string, plan backtest.Plan, name string, texts []string) (backtest.Plan, error) {
	algorithm := algorithms.ByName(name)
	if algorithm == nil {
		return plan, console.Usagef("--%s: %q is not an algorithm; use one of %s", flag, name, strings.Join(algorithms.Names(), ", "))
	}
	o, err := wire.ParseOptions(texts)
	if err == nil {
		plan, err = plan.Under(algorithm, algorithms.Options(o))
	}
	if err != nil {
		return plan, console.Usagef("--%s %s: %w", flag, name, err)
	}
	return titled(plan, name, texts), nil
}

func titled(plan backtest.Plan, algorithm string, options []string) backtest.Plan {
	return plan.Titled(plan.String() + " by " + strings.Join(append([]string{algorithm}, options...), " "))
}

// readTruth reads the file of --truth, nil for none.
func readTruth(con *console.Console, path string, read accesslog.Options) (*backtest.Truth, error) {
	if path == "" {
		return nil, nil
	}
	file, err := con.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	truth, err := backtest.ReadTruth(file, file.Name, read.Keys)
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	if err != nil {
		return nil, console.Usagef("--truth: %w", err)
	}
	return truth, nil
}

// readPlan reads what to test: rules, or the policies of files and of presets.
func readPlan(con *console.Console, flag string, texts, paths, shipped []string) (backtest.Plan, error) {
	switch {
	case len(paths) == 0 && len(texts) == 0 && len(shipped) == 0:
		return backtest.Plan{}, console.Usagef("nothing to test; give a rule, as in --rule 20/m, a policy file with -f, or --preset")
	case len(paths) == 0 && len(shipped) == 0:
		stack, err := rules.ParseStack(texts)
		if err != nil {
			return backtest.Plan{}, console.Usagef("--%s: %w", flag, err)
		}
		return backtest.StackPlan(stack), nil
	}
	var policies []*rules.Policy
	for _, path := range paths {
		requests, err := ReadPolicies(con, path)
		if err != nil {
			return backtest.Plan{}, err
		}
		for _, request := range requests {
			policy, err := policyfile.Policy(request)
			if err != nil {
				return backtest.Plan{}, console.Usagef("%s: policy %q: %w", path, request.Name, err)
			}
			policies = append(policies, policy)
		}
	}
	for _, name := range shipped {
		preset, err := FindPreset(name)
		if err != nil {
			return backtest.Plan{}, err
		}
		policies = append(policies, preset.Policies...)
	}
	return backtest.PoliciesPlan(policies), nil
}

// FindPreset returns the preset of a name.
func FindPreset(name string) (presets.Preset, error) {
	p, found := presets.Find(name)
	if !found {
		return p, console.NotFoundf("there is no preset %q; there are %s", name, strings.Join(presets.Names(), ", "))
	}
	return p, nil
}

// ReadPolicies reads policy files, of which "-" is standard input. The result is not nil unless
// there is an error.
func ReadPolicies(con *console.Console, paths ...string) ([]wire.PolicyRequest, error) {
	all := []wire.PolicyRequest{}
	for _, path := range paths {
		policies, err := readPolicyFile(con, path)
		if err != nil {
			return nil, err
		}
		all = append(all, policies...)
	}
	return all, nil
}

func readPolicyFile(con *console.Console, path string) ([]wire.PolicyRequest, error) {
	file, err := con.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	policies, err := policyfile.Read(file, file.Name)
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	if err != nil {
		return nil, console.Usagef("%w", err)
	}
	return policies, nil
}

// printReport prints a report in the requested format.
func (f *backtestFlags) printReport(con *console.Console, r *backtest.Report) error {
	p := con.Printer()
	switch p.Format {
	case output.JSON:
		if !p.YAML {
			return r.WriteJSON(p.Out)
		}
		var text bytes.Buffer
		if err := r.WriteJSON(&text); err != nil {
			return err
		}
		return p.WriteJSON(text.Bytes())
	case output.CSV:
		return r.WriteCSV(p.Out)
	default:
		return r.WriteText(p.Out, backtest.TextOptions{Width: con.Width(), Top: allForZero(f.limit)})
	}
}

// allForZero returns how many keys a report shows for a --limit; 0 means all.
func allForZero(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

// readPlans reads the plans from a file of keys.
func readPlans(con *console.Console, path string, parser keys.Parser) (func(keys.Key) string, error) {
	file, err := con.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	plans := map[string]string{}
	for p, err := range profilelist.Read(file, profilelist.Detect(path, nil), keys.Reading{Parser: parser, AnyKind: true}) {
		if errors.Is(err, context.Canceled) {
			return nil, err
		}
		if err != nil {
			return nil, console.Usagef("--keys %q: %w", path, err)
		}
		if p.Profile != nil {
			plans[p.Key] = p.Plan
		}
	}
	return func(k keys.Key) string { return plans[k.String()] }, nil
}
