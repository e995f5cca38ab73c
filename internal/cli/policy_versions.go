package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

func newPolicyVersions(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "versions NAME",
		Short:   "List the versions of a policy, the newest first",
		Example: "admin policy versions default",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return printAll(con, versionColumns)(client.Items(c.Context(), server, wire.ListPolicyVersions, wire.ByName{Name: args[0]}))
		}),
	}
}

func newPolicyUsage(con *console.Console) *cobra.Command {
	var span spanFlags
	c := &cobra.Command{
		Use:   "usage NAME",
		Short: "Show how close the keys of a policy came to its rules",
		Long: `Show, for each rule of a policy, how many keys came near to its limit or above it, and the
highest use of the busiest keys within one window of the rule. A limit above the figure
under 99% refuses at most one key in a hundred. Where only a sample of the keys is recorded,
the figures are of the sample, as a note says.`,
		Example: "admin policy usage default --last 24h",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			usage, err := client.Call(c.Context(), server, wire.GetPolicyUsage, wire.UsageOf{Name: args[0], TimeRange: span.timeRange()})
			if err != nil {
				return err
			}
			return printUsage(con, &usage)
		}),
	}
	span.add(c)
	return c
}

func newPolicyDelete(con *console.Console) *cobra.Command {
	var version int64
	var yes bool
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a policy",
		Long: `Delete a policy. Its keys then fall under the policy with the next broader pattern. What a
policy with conditions, an outcome or evidence refuses is no longer refused. Automatic blocks
stay until they end; 'block delete --policy' ends them.
Where there is none, they would be allowed without a limit, which is asked for (--yes), and
so is the deletion of a policy that decided a check in the last day or that a plan selects.
'audit undo' brings the policy back.`,
		Example: "admin policy delete search\nadmin policy delete default --version 7 --yes",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			seen, err := client.Call(c.Context(), server, wire.GetPolicy, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			if version != 0 && seen.Version != version {
				return fmt.Errorf("nothing was changed: the policy %s is at version %d, not %d", output.Escape(args[0]), seen.Version, version)
			}
			isConfirmed := false
			if !yes {
				if isConfirmed, err = confirmUse(c, con, server, &seen); err != nil {
					return err
				}
			}
			_, err = confirmPolicy(con, yes, func(confirm string) (wire.None, error) {
				if isConfirmed { // one question is enough
					confirm = args[0]
				}
				return client.Call(c.Context(), server, wire.DeletePolicy, wire.PolicyDeletion{Name: args[0], Expect: seen.ETag, Confirm: confirm})
			})
			if err != nil {
				return err
			}
			con.Notef("Deleted the policy %s.", output.Escape(args[0]))
			return noteBlocks(c, con, server, args[0])
		}),
	}
	c.Flags().Int64Var(&version, "version", 0, "only if this is still its version")
	broadFlag(c, &yes)
	return c
}

// confirmUse asks for confirmation before a policy in use is deleted, and says what the
// deletion ends. It reports whether it asked.
func confirmUse(c *cobra.Command, con *console.Console, server *client.Client, seen *wire.Policy) (asked bool, err error) {
	name := seen.Name
	policy, err := rules.ReadDocument(&seen.PolicyRequest, keys.Parser{}.Pattern)
	if err != nil {
		return false, err
	}
	usage, err := client.Call(c.Context(), server, wire.GetPolicyUsage, wire.UsageOf{Name: name, TimeRange: wire.TimeRange{Last: "24h"}})
	if err != nil {
		return false, err
	}
	plans, err := client.Items(c.Context(), server, wire.ListPlans, wire.None{})
	if err != nil {
		return false, err
	}
	planned := 0
	for _, p := range plans {
		if string(p.Policy) == name {
			planned += p.Keys
		}
	}
	var uses []string
	if use := describeUse(&usage, policy.IsConditional()); use != "" {
		uses = append(uses, use)
	}
	if planned > 0 {
		uses = append(uses, "is selected by the plans of "+output.Amount(planned, "key", "keys"))
	}
	if len(uses) == 0 {
		return false, nil
	}
	return true, con.Confirm(output.Escape(fmt.Sprintf("The policy %s is in use: it %s. %s", name, strings.Join(uses, ", and "), policy.DescribeDeletion())), "--yes")
}

// describeUse describes for confirmUse what a policy decided, "" for nothing. The checks that an additional
// policy allowed are decided by others.
func describeUse(usage *wire.PolicyUsage, isAdditional bool) string {
	about := output.Amount(int(usage.Keys), "key", "keys")
	switch {
	case isAdditional && usage.Limited > 0:
		return fmt.Sprintf("applied to about %s in the last day and refused %s, the last at %s", about, output.Amount(int(usage.Limited), "check", "checks"), usage.LastAt)
	case isAdditional && usage.ShadowLimited > 0:
		return fmt.Sprintf("applied to about %s in the last day and would have refused %s", about, output.Amount(int(usage.ShadowLimited), "check", "checks"))
	case isAdditional && usage.Keys > 0:
		return fmt.Sprintf("applied to about %s in the last day and refused none", about)
	case !usage.LastAt.IsZero():
		return fmt.Sprintf("decided checks of about %s in the last day, the last at %s", about, usage.LastAt)
	case usage.Keys > 0:
		return fmt.Sprintf("applied to about %s in the last day and refused none", about)
	}
	return ""
}

// printUsage prints the effect of a policy, and of which keys it is known.
func printUsage(con *console.Console, usage *wire.PolicyUsage) error {
	p := con.Printer()
	if p.Format == output.JSON {
		return p.JSON(usage)
	}
	if p.Format == output.Table {
		p.Sayf("%s allowed and %s refused from %s to %s.", output.Amount(usage.Allowed, "request", "requests"),
			output.Amount(usage.Limited, "request", "requests"), usage.From, usage.To)
		if usage.ShadowLimited > 0 {
			p.Sayf("In shadow mode it would have refused %s.", output.Amount(usage.ShadowLimited, "request", "requests"))
		}
		if usage.Note != "" {
			p.Sayf("%s", output.Escape(string(usage.Note)))
		}
		if len(usage.Rules) == 0 {
			return nil
		}
	}
	ratio := output.Column[wire.RuleUsage]{Name: "sample_ratio", Cell: func(wire.RuleUsage) output.Cell { return output.Ratio(usage.SampleRatio) }}
	if err := output.List(p, usage.Rules, append(slices.Clone(usageColumns), ratio)); err != nil {
		return err
	}
	if len(usage.Rules) > 0 {
		noteSample(con, usage.SampleRatio)
	}
	return nil
}

// noteSample prints the ratio of keys that figures are based on, nothing if it is all keys.
func noteSample(con *console.Console, ratio float64) {
	if ratio < 1 {
		con.Notef("This is an estimate: the requests of %.1f%% of the keys were recorded.", 100*ratio)
	}
}

var usageColumns = output.Columns(`rule: Rule, keys: Keys, near: Near, over: Over, median: Median, p95: 95%, p99: 99%, max: Highest,
	busiest: Busiest key (cut)`, output.Cells[wire.RuleUsage]{
	"busiest": func(r wire.RuleUsage) output.Cell {
		if len(r.Busiest) == 0 {
			return output.Cell{}
		}
		return output.Text(r.Busiest[0].Key)
	},
})

func newPolicyDiff(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME [FROM [TO]]",
		Short: "Show what changed between two versions of a policy",
		Long: `Show what changed between two versions of a policy: without versions the newest and the
one before it, with one version that one and the newest.`,
		Example: "admin policy diff default\nadmin policy diff default 3 5",
		Args:    cobra.RangeArgs(1, 3),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			from, to, err := pickTwo(c, server, args[0], args[1:])
			if err != nil {
				return err
			}
			return printDiff(c, con, server, args[0], from, to)
		}),
	}
}

// pickTwo returns the versions to compare. from is 0 for no policy, before the first version.
func pickTwo(c *cobra.Command, server *client.Client, name string, numbers []string) (from, to int64, err error) {
	if len(numbers) > 1 {
		to, err = parseVersion(numbers[1])
	} else {
		var newest *wire.Policy
		if newest, err = policyVersion(c, server, name, 0); err == nil {
			to = newest.Version
		}
	}
	if err != nil || len(numbers) == 0 {
		return to - 1, to, err
	}
	from, err = parseVersion(numbers[0])
	return from, to, err
}

func parseVersion(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, console.Usagef("there is no version %q; see 'policy versions'", text)
	}
	return n, nil
}

func newPolicyRollback(con *console.Console) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "rollback NAME [VERSION]",
		Short: "Restore an earlier version of a policy, as a new version",
		Long: `Restore an earlier version of a policy, the one before the newest if none is named.
It becomes a new version, so that nothing is lost. A deleted policy is created again from the
version that is named; its counts and levels of escalation do not come back.`,
		Example: "admin policy rollback default\nadmin policy rollback default 3",
		Args:    cobra.RangeArgs(1, 2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			newest, err := client.Call(c.Context(), server, wire.GetPolicy, wire.ByName{Name: args[0]})
			if err != nil && (len(args) < 2 || codeOf(err) != console.NotFound) {
				return err
			}
			var version int64
			if len(args) > 1 {
				if version, err = parseVersion(args[1]); err != nil {
					return err
				}
			}
			stored, err := confirmPolicy(con, yes, func(confirm string) (wire.Policy, error) {
				return client.Call(c.Context(), server, wire.RollBackPolicy, wire.PolicyRollback{Name: args[0], Version: version, Expect: cmp.Or(newest.ETag, "*"), Confirm: confirm})
			})
			if err != nil {
				return err
			}
			return printStored(c, con, server, &stored, newest.Version)
		}),
	}
	broadFlag(c, &yes)
	return c
}

// printStored prints a stored policy and, in a table, its differences from the previous
// version, 0 for none.
func printStored(c *cobra.Command, con *console.Console, server *client.Client, stored *wire.Policy, before int64) error {
	con.Warn(stored.Warnings)
	if p := con.Printer(); p.Format != output.Table {
		return output.One(p, *stored, policyDetail)
	}
	return printDiff(c, con, server, stored.Name, before, stored.Version)
}

// printDiff prints the differences between two versions of a policy. from is 0 for no policy,
// before the first version.
func printDiff(c *cobra.Command, con *console.Console, server *client.Client, name string, from, to int64) error {
	first := int(from)
	diff, err := client.Call(c.Context(), server, wire.DiffPolicy, wire.PolicyDiffOf{Name: name, From: &first, To: int(to)})
	if err != nil {
		return err
	}
	p := con.Printer()
	switch p.Format {
	case output.JSON:
		return p.JSON(diff)
	case output.CSV:
		return output.List(p, diff.Fields, diffColumns)
	}
	if from == 0 {
		p.Sayf("policy %s, version %d", output.Escape(name), to)
	} else {
		p.Sayf("policy %s, version %d to %d", output.Escape(name), from, to)
	}
	lines := wire.Lines(diff.Fields, output.Escape)
	if len(lines) == 0 {
		lines = []string{"no difference"}
	}
	for _, line := range lines {
		p.Sayf("  %s", line)
	}
	return nil
}

var versionColumns = output.Columns[wire.Policy](`version: Version, updated_at: Created, updated_by: By, mode: Mode, rules: Rules (cut),
	match: Match (cut drop 1)`)

var diffColumns = output.Columns[wire.FieldChange]("field, before, after")
