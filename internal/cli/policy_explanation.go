package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/local"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newPolicyExplain(con *console.Console) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "explain NAME | -f FILE",
		Short: "Say in words what a policy does and how soon its limits are used up",
		Long: `Say in words what a policy does, how soon its limits are used up by a client that always
asks as early as allowed, and what is probably not meant. With -f the policies of a file are
explained before they are applied: also what they change, and whether that needs a
confirmation. Nothing is changed.`,
		Example: "admin policy explain default\nadmin policy explain -f policies.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if (path == "") == (len(args) == 0) {
				return console.Usagef("give either the name of a policy or a file with -f")
			}
			if path == "" {
				x, err := server.Policies.Explain(c.Context(), args[0])
				if err != nil {
					return err
				}
				return printPolicyExplanations(con, []wire.PolicyExplanation{*x})
			}
			drafts, err := local.ReadPolicies(con, path)
			if err != nil {
				return err
			}
			all := make([]wire.PolicyExplanation, len(drafts))
			for i, draft := range drafts {
				x, err := server.Policies.ExplainDraft(c.Context(), draft)
				if err != nil {
					return err
				}
				all[i] = *x
			}
			return printPolicyExplanations(con, all)
		}),
	}
	draftFlag(c, &path)
	return c
}

// draftFlag adds the flag that names a policy file.
func draftFlag(c *cobra.Command, path *string) {
	c.Flags().StringVarP(path, "file", "f", "", "a policy file instead of a name, - for standard input")
}

func printPolicyExplanations(con *console.Console, all []wire.PolicyExplanation) error {
	p := con.Printer()
	if p.Format != output.Table {
		return output.List(p, all, policyExplanationColumns)
	}
	for i, x := range all {
		if i > 0 {
			p.Sayf("")
		}
		printPolicyExplanation(con, p, x)
	}
	return nil
}

func printPolicyExplanation(con *console.Console, p *output.Printer, x wire.PolicyExplanation) {
	if x.Version == 0 {
		p.Sayf("policy %s, new", output.Escape(x.Name))
	} else {
		p.Sayf("policy %s, version %d", output.Escape(x.Name), x.Version)
	}
	p.Sayf("  %s", strings.TrimSpace(x.Limits+" "+string(x.Details)))
	p.Sayf("  Counted by %s.", x.Counting)
	if x.Advice != "" {
		p.Sayf("  %s", string(x.Advice))
	}
	if len(x.Changes) > 0 {
		p.Sayf("  Applying it changes:")
		for _, line := range wire.Lines(x.Changes, output.Escape) {
			p.Sayf("    %s", line)
		}
	}
	if x.ResetsCounts != "" {
		p.Sayf("  It resets the counts. %s", string(x.ResetsCounts))
	}
	if x.ConfirmReason != "" {
		p.Sayf("  It needs a confirmation: %s.", output.Escape(string(x.ConfirmReason)))
	}
	con.Warn(x.Warnings)
}

var policyExplanationColumns = []output.Column[wire.PolicyExplanation]{
	{Name: "name", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(x.Name) }},
	{Name: "version", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Number(x.Version) }},
	{Name: "limits", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(x.Limits) }},
	{Name: "details", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(string(x.Details)) }},
	{Name: "counting", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(x.Counting) }},
	{Name: "advice", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(string(x.Advice)) }},
	{Name: "warnings", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Texts(x.Warnings) }},
	{Name: "resets_counts", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(string(x.ResetsCounts)) }},
	{Name: "confirm_reason", Cell: func(x wire.PolicyExplanation) output.Cell { return output.Text(string(x.ConfirmReason)) }},
}
