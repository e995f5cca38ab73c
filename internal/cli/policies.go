package cli

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(enforce, newPolicy) }

func newPolicy(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show and change policies and their versions",
		Long: `Show and change policies. A policy is a stack of rules that must all allow a request, written
count/window as in 20/1m, and the patterns of the keys that it applies to. To keep all
policies in a file under version control, see 'apply' and 'export'.`,
		Example: "admin policy list\nadmin policy set default --rule 1/s --rule 20/m",
	}
	c.AddCommand(newPolicyList(con), newPolicyShow(con), newPolicyExplain(con), newPolicyTry(con), newPolicySet(con), newPolicyDraft(con), newPolicyPromote(con), newPolicyDiscard(con), newPolicyRename(con), newPolicyDelete(con),
		newPolicyVersions(con), newPolicyUsage(con), newPolicyDiff(con), newPolicyRollback(con), newPolicyAlgorithms(con), newPolicyLists(con))
	return c
}

func newPolicyList(con *console.Console) *cobra.Command {
	var search string
	c := listCommand(con, cobra.Command{
		Short:   "List the policies",
		Example: "admin policy list\nadmin policy list --search customer- -o json",
	}, wire.ListPolicies, policyColumns, func() wire.PolicyList { return wire.PolicyList{Search: search} })
	c.Flags().StringVar(&search, "search", "", "only policies whose name or pattern contains this text")
	return c
}

func newPolicyShow(con *console.Console) *cobra.Command {
	var version int64
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a policy, or one of its versions",
		Example: "admin policy show default\nadmin policy show default --version 3 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			policy, err := policyVersion(c, server, args[0], version)
			if err != nil {
				return err
			}
			return printPolicy(con, policy)
		}),
	}
	c.Flags().Int64Var(&version, "version", 0, "the version to show; the newest if omitted")
	return c
}

// policyVersion returns one version of a policy, the newest for 0.
func policyVersion(c *cobra.Command, server *client.Client, name string, version int64) (*wire.Policy, error) {
	if version == 0 {
		policy, err := client.Call(c.Context(), server, wire.GetPolicy, wire.ByName{Name: name})
		return &policy, err
	}
	versions, err := client.Items(c.Context(), server, wire.ListPolicyVersions, wire.ByName{Name: name})
	if err != nil {
		return nil, err
	}
	for i := range versions {
		if versions[i].Version == version {
			return &versions[i], nil
		}
	}
	return nil, console.NotFoundf("policy %s has no version %d; see 'policy versions %s'", name, version, name)
}

func printPolicy(con *console.Console, policy *wire.Policy) error {
	con.Warn(policy.Warnings)
	return output.One(con.Printer(), *policy, policyDetail)
}

var policyColumns = output.Columns(`name: Name, match: Match (cut), when: When (cut drop 1), rules: Rules (cut),
	evidence: Evidence (cut drop 3), outcome: Outcome (drop 3), scope: Scope (drop 2), also: Also counts (cut drop 2), mode: Mode,
	on_failure: On failure (usual local drop 3), algorithm: Algorithm (drop 4), options: Options (drop 6),
	on_limit: At a limit (usual limit drop 3), unit: Unit (drop 5), time_zone: Time zone (drop 6), cost: Cost (drop 5), hold: Hold (drop 5),
	on_expiry: On expiry (drop 5), escalation: Automatic block (usual never drop 2), version: Version, updated_at: Changed (drop 2),
	updated_by: By (drop 5)`, output.Cells[wire.Policy]{
	"when":       func(p wire.Policy) output.Cell { return output.FirstTexts(whenTexts(p.When), 2) },
	"evidence":   func(p wire.Policy) output.Cell { return output.FirstTexts(p.Evidence, 1) },
	"options":    func(p wire.Policy) output.Cell { return output.Texts(p.Options.Texts()) },
	"on_limit":   func(p wire.Policy) output.Cell { return output.Text(cmp.Or(p.OnLimit, "limit")) },
	"cost":       func(p wire.Policy) output.Cell { return costOrNone(p.Cost) },
	"escalation": escalationCell,
})

// policyDetail are the columns of one policy, with all of its conditions and evidence.
var policyDetail = func() []output.Column[wire.Policy] {
	columns := append(slices.Clone(policyColumns),
		output.Column[wire.Policy]{Name: "created_at", Head: "Created", Cell: func(p wire.Policy) output.Cell { return output.Time(p.CreatedAt.Time) }})
	for i := range columns {
		switch columns[i].Name {
		case "when":
			columns[i].Cell = func(p wire.Policy) output.Cell { return output.Texts(whenTexts(p.When)) }
		case "evidence":
			columns[i].Cell = func(p wire.Policy) output.Cell { return output.Texts(p.Evidence) }
		}
	}
	return columns
}()

// escalationCell formats an escalation in one line: "after 100 within 10m: 1h, x2 to
// 1d, decay after 7d".
func escalationCell(p wire.Policy) output.Cell {
	e := p.Escalation
	if e == nil {
		return output.Words("never", "")
	}
	text := fmt.Sprintf("after %d within %s: %s, x%s to %s, decay after %s", e.Threshold, e.Window, e.Duration,
		strconv.FormatFloat(e.Factor, 'f', -1, 64), e.MaxDuration, e.DecayAfter)
	if e.ChallengeLevels > 0 {
		text += fmt.Sprintf(", the first %d challenge", e.ChallengeLevels)
	}
	return output.Words(text, text)
}

func newPolicySet(con *console.Console) *cobra.Command {
	var change policyChange
	var yes, draft bool
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a policy, or change the fields that the flags name",
		Long: `Create a policy, or change the fields that the flags name. The rules and patterns given
replace all earlier ones. The difference is printed. A concurrent change by somebody else
is never overwritten. With --draft, the result is saved as the draft of the policy, which
runs beside it in shadow mode; see 'policy draft'.`,
		Example: `admin policy set default --rule 1/s --rule 20/m --rule 200/h --rule 800/d
admin policy set search --match 'token:*' --rule 5/10s --mode shadow
admin policy set partners --match 'token:partner-*' --rule 10000/h --algorithm sorted_set_log --option count_refused
admin policy set login --match 'ip:*' --when path=/login --when method=POST --rule 5/m
admin policy set guessing --match 'ip:*' --outcome login_failed --rule 20/d --also 'account 10/h' --also 'net:/24 40/h'
admin policy set default --escalate 100/10m --block-for 1h --block-factor 2 --block-cap 1d --decay-after 7d`,
		Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return setPolicy(c, con, server, args[0], &change, draft, yes)
		}),
	}
	change.add(c)
	c.Flags().BoolVar(&draft, "draft", false, "save it as a draft in shadow mode, which runs beside the policy and refuses nobody")
	broadFlag(c, &yes)
	return c
}

func setPolicy(c *cobra.Command, con *console.Console, server *client.Client, name string, change *policyChange, draft, yes bool) error {
	policies, err := client.Items(c.Context(), server, wire.ListPolicies, wire.PolicyList{})
	if err != nil {
		return err
	}
	next := wire.PolicyRequest{Name: name}
	var before *wire.Policy
	byName := map[string]*wire.Policy{}
	for i := range policies {
		byName[policies[i].Name] = &policies[i]
	}
	if before = byName[name]; before != nil {
		next = before.PolicyRequest
	}
	if before == nil && len(change.set.Match) == 0 {
		return notCreated(c, server, name, "its patterns, for example --match 'ip:*'")
	}
	if before == nil && len(change.rules) == 0 && !isSet(c, "no-rules") {
		return notCreated(c, server, name, "its rules, for example --rule 20/1m, or --no-rules for a policy that allows everything")
	}
	if err := change.apply(c, &next); err != nil {
		return err
	}
	if draft {
		next.Name, next.Mode = rules.DraftName(name), string(rules.Shadow)
		before = byName[next.Name]
	}
	var version int64
	var seen string
	if before != nil {
		version, seen = before.Version, before.ETag
	}
	stored, err := confirmPolicy(con, yes, func(confirm string) (wire.Policy, error) {
		return client.Call(c.Context(), server, wire.PutPolicy, wire.PolicyPut{Of: next.Name, Expect: seen, Confirm: confirm, PolicyRequest: next})
	})
	if err != nil {
		return err
	}
	return printStored(c, con, server, &stored, version)
}

// notCreated returns the usage error that a policy does not exist, and what must be given to create it. It
// says how one that was deleted comes back.
func notCreated(c *cobra.Command, server *client.Client, name, give string) error {
	_, err := client.Call(c.Context(), server, wire.GetPolicy, wire.ByName{Name: name})
	var problem *wire.Problem
	if errors.As(err, &problem) && undoOf(problem) != "" {
		return console.Usagef("there is no policy %q: it was deleted, and 'audit undo %s' brings it back; to create another, give %s", name, undoOf(problem), give)
	}
	return console.Usagef("there is no policy %q; to create it, give %s", name, give)
}

// policyChange holds the flags of 'policy set'.
type policyChange struct {
	set                wire.PolicyRequest // what the flags say that have the names of its fields
	rules, when        []string
	cost               amountFlag
	hold               durationFlag
	options            []string
	escalate           string
	blockFor, blockCap durationFlag
	decayAfter         durationFlag
	factor             float64
	challengeLevels    int
}

func (f *policyChange) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVar(&f.set.Match, "match", nil, "a pattern of keys, for example 'ip:*' or token:test_*; may be repeated")
	flags.StringSliceVar(&f.rules, "rule", nil, "a rule, for example 20/1m; may be repeated")
	flags.StringArrayVar(&f.when, "when", nil, "a condition, for example path=/login*, path=@secrets, 'path=not /static/*' or method=POST; may be repeated and replaces earlier ones")
	flags.StringVar(&f.set.Outcome, "outcome", "", "count reports of this outcome, for example login_failed, and not checks")
	flags.StringVar(&f.set.Scope, "scope", "", "with an outcome, refuse only checks with this scope, for example login")
	flags.StringArrayVar(&f.set.Evidence, "evidence", nil, "for what a request gets points, for example '20 path @secrets' or '2 outcome not_found distinct path', with rules such as '20 points/1h'; may be repeated and replaces earlier ones")
	flags.StringArrayVar(&f.set.Also, "also", nil, "a further key that each request counts for, with rules of its own if they differ, for example net:/24 or 'account 10/h'; may be repeated and replaces earlier ones")
	flags.StringVar(&f.set.Mode, "mode", "", "enforce, shadow (count only) or off")
	flags.StringVar(&f.set.OnFailure, "on-failure", "", "while the log is unreachable: local, allow or deny")
	flags.StringVar(&f.set.OnLimit, "on-limit", "", "what happens to a key that reaches a limit: limit refuses its requests until there is room; block also blocks it at once, for an hour at first or as --block-for says; challenge refuses them until its browser solves a challenge")
	flags.StringVar(&f.set.Unit, "unit", "", "what the rules count, for example tokens; \"\" for requests")
	flags.StringVar(&f.set.TimeZone, "time-zone", "", "where the days and months of rules such as 1000/calendar-month begin, for example Europe/Berlin; \"\" for UTC")
	flags.Var(&f.cost, "cost", "the amount of a check that says none, for example 2000")
	flags.Var(&f.hold, "hold", "for how long a check holds its cost if it says nothing itself, for example 30s")
	flags.StringVar(&f.set.OnExpiry, "on-expiry", "", "what a hold leaves that was never settled: keep what it held, or release it")
	flags.StringVar(&f.set.Algorithm, "algorithm", "", "how it counts, for example timestamp_log; options not given by --option get their defaults")
	flags.StringSliceVar(&f.options, "option", nil, "an option of the algorithm, for example burst=50; may be repeated and replaces earlier ones")
	flags.StringVar(&f.escalate, "escalate", "", "block a key automatically after this many offences within this time, for example 100/10m")
	flags.Var(&f.blockFor, "block-for", "the first automatic block's duration")
	flags.Float64Var(&f.factor, "block-factor", 2, "the factor by which each further block is longer")
	flags.Var(&f.blockCap, "block-cap", "the longest automatic block")
	flags.Var(&f.decayAfter, "decay-after", "the time without offences after which the level falls by one")
	flags.IntVar(&f.challengeLevels, "challenge-levels", 0, "how many of the first automatic blocks challenge instead of refusing: browsers that solve a challenge go on")
	for _, none := range []struct{ name, with, usage string }{
		{"no-rules", "rule", "no rules: everything that its patterns match is allowed"},
		{"no-when", "when", "no conditions"},
		{"no-outcome", "outcome", "count checks"},
		{"no-scope", "scope", "refuse every check"},
		{"no-evidence", "evidence", "count no points"},
		{"no-also", "also", "no further keys"},
		{"no-hold", "hold", "a check that says nothing charges its cost at once"},
		{"no-escalation", "escalate", "no automatic blocks"},
	} {
		flags.Bool(none.name, false, none.usage)
		c.MarkFlagsMutuallyExclusive(none.with, none.name)
	}
	console.CompleteFlag(c, "algorithm", algorithms.Names()...)
}

// isSet reports whether a flag is given and true.
func isSet(c *cobra.Command, flag string) bool {
	f := c.Flag(flag)
	return f != nil && f.Value.String() == "true"
}

// apply changes p according to the flags. The flag of a field has its name in JSON, and --no-NAME empties it.
func (f *policyChange) apply(c *cobra.Command, p *wire.PolicyRequest) (err error) {
	given := c.Flags().Changed
	if f.set.When, err = parseWhen(f.when); err != nil {
		return err
	}
	f.set.Cost, f.set.Hold = f.cost.amount, f.hold.Duration
	if f.set.Rules = append([]string{}, rules.SplitRules(strings.Join(f.rules, ","))...); given("rule") {
		p.Rules = f.set.Rules
	}
	// Points, and units, are counted by a log of their own, which the server chooses.
	countsElse := given("unit") && (f.set.Unit != "") != (p.Unit != "")
	if given("evidence") || isSet(c, "no-evidence") {
		countsElse = countsElse || (len(f.set.Evidence) > 0) != (len(p.Evidence) > 0)
	}
	if countsElse {
		p.Algorithm = ""
	}
	if countsElse || given("algorithm") {
		p.Options = wire.PolicyOptions{}
	}
	if given("unit") && !given("rule") {
		for i, rule := range p.Rules {
			p.Rules[i] = withoutUnit(rule, p.Unit)
		}
	}
	to, set := reflect.ValueOf(p).Elem(), reflect.ValueOf(f.set)
	for i := range set.NumField() {
		if name := flagName(set.Type().Field(i)); given(name) || isSet(c, "no-"+name) {
			to.Field(i).Set(set.Field(i))
		}
	}
	if given("on-limit") && p.OnLimit == "block" && p.Escalation != nil {
		p.Escalation.Threshold = 1
	}
	if given("option") {
		if p.Options, err = wire.ParseOptions(f.options); err != nil {
			return console.Usagef("--option: %w", err)
		}
	}
	return f.applyEscalation(c, p)
}

// withoutUnit returns a rule without its unit, so that the policy's applies.
func withoutUnit(rule, unit string) string {
	if unit == "" {
		return rule
	}
	return strings.Replace(rule, " "+unit+"/", "/", 1)
}

func costOrNone(cost int) output.Cell {
	if cost == 0 {
		return output.Cell{}
	}
	return output.Number(cost)
}

// applyEscalation changes the escalation of p according to the flags of 'policy set'. A new
// escalation needs --escalate, --block-for and --decay-after. Its cap is the duration of its
// first block unless it is given.
func (f *policyChange) applyEscalation(c *cobra.Command, p *wire.PolicyRequest) error {
	given := c.Flags().Changed
	if !given("escalate") && !given("block-for") && !given("block-factor") && !given("block-cap") && !given("decay-after") && !given("challenge-levels") {
		return nil
	}
	if isSet(c, "no-escalation") {
		return console.Usagef("--no-escalation takes the escalation away; leave out the flags that describe one")
	}
	isNew := p.Escalation == nil
	if missing := slices.DeleteFunc([]string{"escalate", "block-for", "decay-after"}, given); isNew && len(missing) > 0 {
		return console.Usagef("the policy has no escalation yet; a new one needs --%s too", strings.Join(missing, " and --"))
	}
	escalation := wire.Escalation{Factor: f.factor}
	if !isNew {
		escalation = *p.Escalation
	}
	// A cap that nobody chose equals the first block's duration; the server refuses a lower
	// one.
	followsDuration := !given("block-cap") && escalation.MaxDuration <= escalation.Duration
	if given("escalate") {
		offences, within, err := parseEscalate(f.escalate)
		if err != nil {
			return err
		}
		escalation.Threshold, escalation.Window = offences, within
	}
	if given("block-for") {
		escalation.Duration = f.blockFor.Duration
	}
	if given("block-factor") {
		escalation.Factor = f.factor
	}
	if given("block-cap") {
		escalation.MaxDuration = f.blockCap.Duration
	}
	if followsDuration {
		escalation.MaxDuration = max(escalation.MaxDuration, escalation.Duration)
	}
	if given("decay-after") {
		escalation.DecayAfter = f.decayAfter.Duration
	}
	if given("challenge-levels") {
		escalation.ChallengeLevels = f.challengeLevels
	}
	p.Escalation = &escalation
	return nil
}

func newPolicyAlgorithms(con *console.Console) *cobra.Command {
	return listCommand(con, cobra.Command{
		Use:     "algorithms",
		Short:   "List the algorithms and their options",
		Example: "admin policy algorithms\nadmin policy algorithms -o json",
	}, wire.ListAlgorithms, algorithmColumns, noFilter)
}

var algorithmColumns = output.Columns[wire.Algorithm]("name: Name, exact: Exact, options: Options, summary: What it does (cut)")

func newPolicyLists(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "lists [NAME]",
		Short: "List the lists of patterns that conditions may contain, or show one",
		Long: `List the lists of patterns that come with Stint, or show one with its patterns. A condition
contains a list as @NAME, and a pattern with not excludes what it matches.`,
		Example: "admin policy lists\nadmin policy lists secrets\nadmin policy set traps --match 'ip:*' --when path=@secrets --when 'path=not /downloads/*' --rule 0/s",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if len(args) == 0 {
				return printAll(con, listColumns)(client.Items(c.Context(), server, wire.ListConditionLists, wire.None{}))
			}
			return printOne(con, listDetail)(client.Call(c.Context(), server, wire.GetConditionList, wire.ByName{Name: args[0]}))
		}),
	}
}

var listColumns = output.Columns(`name: Name, attribute: Condition on, size: Patterns (right), date: Changed (drop 1),
	title: What it has (cut)`, output.Cells[wire.ConditionList]{
	"size": func(x wire.ConditionList) output.Cell { return output.Number(len(x.Patterns)) },
})

// listDetail are the columns of one list, with its patterns.
var listDetail = output.Columns[wire.ConditionList](`name: Name, title: Title, description: What it has, attribute: Condition on, as_sent: Also as sent,
	source: Source, date: Changed, patterns: Patterns`)
