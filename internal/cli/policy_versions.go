package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/wire"
)

func newPolicyVersions(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "versions NAME",
		Short:   "List the versions of a policy, the newest first",
		Example: "admin policy versions default",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			versions, err := server.Policies.Versions(c.Context(), args[0])
			if err != nil {
				return err
			}
			return output.List(con.Printer(), versions, versionColumns)
		}),
	}
}

func newPolicyDiff(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME [FROM [TO]]",
		Short: "Show what changed between two versions of a policy",
		Long: `Show what changed between two versions of a policy: without versions the newest and the
one before it, with one version that one and the newest.`,
		Example: "admin policy diff default\nadmin policy diff default 3 5",
		Args:    cobra.RangeArgs(1, 3),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			versions, err := server.Policies.Versions(c.Context(), args[0])
			if err != nil {
				return err
			}
			before, after, err := pickTwo(versions, args[1:])
			if err != nil {
				return err
			}
			return printDiff(con, args[0], before, after)
		}),
	}
}

// pickTwo finds the versions to compare. before is nil for what came before
// the first version.
func pickTwo(versions []wire.Policy, numbers []string) (before, after *wire.Policy, err error) {
	find := func(number string) (*wire.Policy, error) {
		n, err := strconv.ParseInt(number, 10, 64)
		for i := range versions {
			if err == nil && versions[i].Version == n {
				return &versions[i], nil
			}
		}
		return nil, console.Usagef("there is no version %q; see 'policy versions'", number)
	}
	after = &versions[0]
	if len(versions) > 1 {
		before = &versions[1]
	}
	if len(numbers) > 0 {
		if before, err = find(numbers[0]); err != nil {
			return nil, nil, err
		}
	}
	if len(numbers) > 1 {
		after, err = find(numbers[1])
	}
	return before, after, err
}

func newPolicyRollback(con *console.Console) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "rollback NAME [VERSION]",
		Short: "Restore an earlier version of a policy, as a new version",
		Long: `Restore an earlier version of a policy, the one before the newest if none is named.
It becomes a new version, so that nothing is lost.`,
		Example: "admin policy rollback default\nadmin policy rollback default 3",
		Args:    cobra.RangeArgs(1, 2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			versions, err := server.Policies.Versions(c.Context(), args[0])
			if err != nil {
				return err
			}
			back, newest, err := pickTwo(versions, args[1:])
			if err != nil {
				return err
			}
			if back == nil {
				return console.Usagef("policy %s has only one version; there is no earlier one", args[0])
			}
			stored, err := confirmPolicy(con, yes, func(confirm string) (*wire.Policy, error) {
				return server.Policies.Put(c.Context(), back.Request(), newest.Version, confirm)
			})
			if err != nil {
				return err
			}
			con.Warn(stored.Warnings)
			return printDiff(con, args[0], newest, stored)
		}),
	}
	broadFlag(c, &yes)
	return c
}

// printDiff prints the difference from before, which may be nil, to after.
func printDiff(con *console.Console, name string, before, after *wire.Policy) error {
	p := con.Printer()
	if p.Format != output.Table {
		versions := []*wire.Policy{before, after}
		if before == nil {
			versions = versions[1:]
		}
		return output.List(p, versions, versionRefColumns)
	}
	var old *wire.PolicyRequest
	title := fmt.Sprintf("policy %s, version %d", output.Escape(name), after.Version)
	if before != nil {
		request := before.Request()
		old, title = &request, fmt.Sprintf("policy %s, version %d to %d", output.Escape(name), before.Version, after.Version)
	}
	next := after.Request()
	p.Sayf("%s", title)
	changes, err := policyfile.Diff(old, &next)
	if err != nil {
		return err
	}
	lines := wire.Lines(changes, output.Escape)
	if len(lines) == 0 {
		lines = []string{"no difference"}
	}
	for _, line := range lines {
		p.Sayf("  %s", line)
	}
	return nil
}

var versionColumns = []output.Column[wire.Policy]{
	{Name: "version", Head: "Version", Right: true, Cell: func(p wire.Policy) output.Cell { return output.Number(p.Version) }},
	{Name: "updated_at", Head: "Created", Cell: func(p wire.Policy) output.Cell { return output.Time(p.UpdatedAt.Time) }},
	{Name: "updated_by", Head: "By", Cell: func(p wire.Policy) output.Cell { return output.Text(p.UpdatedBy) }},
	{Name: "mode", Head: "Mode", Cell: func(p wire.Policy) output.Cell { return output.Text(p.Mode) }},
	{Name: "rules", Head: "Rules", Cut: true, Cell: func(p wire.Policy) output.Cell { return output.Texts(p.Rules) }},
	{Name: "match", Head: "Match", Cut: true, Drop: 1, Cell: func(p wire.Policy) output.Cell { return output.Texts(p.Match) }},
}

var versionRefColumns = []output.Column[*wire.Policy]{
	{Name: "version", Cell: func(p *wire.Policy) output.Cell { return output.Number(p.Version) }},
	{Name: "mode", Cell: func(p *wire.Policy) output.Cell { return output.Text(p.Mode) }},
	{Name: "rules", Cell: func(p *wire.Policy) output.Cell { return output.Texts(p.Rules) }},
	{Name: "match", Cell: func(p *wire.Policy) output.Cell { return output.Texts(p.Match) }},
}
