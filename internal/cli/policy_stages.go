package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newPolicyDraft(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "draft NAME",
		Short: "Compare a policy with its draft in shadow mode",
		Long: `Show what the draft of a policy changes, and what both decided about the same checks since
the draft was saved, at most in the last day. The draft is the shadow policy NAME.draft, as
'policy set NAME --draft' and 'apply --shadow' make it: it runs beside the policy, which
goes on. 'policy promote' puts it in force, and 'policy discard' deletes it.`,
		Example: "admin policy set website --rule 10/1s --draft\nadmin policy draft website",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			compared, err := client.Call(c.Context(), server, wire.CompareDraft, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			p := con.Printer()
			if p.Format != output.Table {
				return output.One(p, compared, draftColumns)
			}
			p.Sayf("draft of policy %s", output.Escape(args[0]))
			for _, line := range wire.Lines(compared.Changes, output.Escape) {
				p.Sayf("  %s", line)
			}
			if len(compared.Changes) == 0 {
				p.Sayf("  no difference")
			}
			p.Sayf("From %s to %s:", compared.From, compared.To)
			p.Sayf("  the policy refused %d checks and allowed %d,", compared.Limited, compared.Allowed)
			p.Sayf("  the draft would have refused %d and allowed %d.", compared.DraftLimited, compared.DraftAllowed)
			return nil
		}),
	}
}

var draftColumns = output.Columns("draft=draft.name, version, changes, from, to, allowed, limited, draft_allowed, draft_limited", output.Cells[wire.DraftComparison]{
	"changes": func(d wire.DraftComparison) output.Cell { return output.Texts(wire.Lines(d.Changes, output.Escape)) },
})

func newPolicyPromote(con *console.Console) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "promote NAME",
		Short: "Put the draft of a policy in force",
		Long: `Put the draft of a policy in force, as a new version of the policy. The draft no longer
exists then. 'policy rollback' restores the version before.`,
		Example: "admin policy set website --rule 10/1s --draft\nadmin policy promote website",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			compared, err := client.Call(c.Context(), server, wire.CompareDraft, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			stored, err := confirmPolicy(con, yes, func(confirm string) (wire.Policy, error) {
				return client.Call(c.Context(), server, wire.PromotePolicy, wire.PolicyPromotion{Name: args[0], Expect: compared.Draft.ETag, Confirm: confirm})
			})
			if err != nil {
				return err
			}
			return printStored(c, con, server, &stored, compared.Version)
		}),
	}
	broadFlag(c, &yes)
	return c
}

func newPolicyDiscard(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "discard NAME",
		Short:   "Delete the draft of a policy",
		Long:    "Delete the draft of a policy. The policy itself stays as it is.",
		Example: "admin policy set website --rule 10/1s --draft\nadmin policy discard website",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			compared, err := client.Call(c.Context(), server, wire.CompareDraft, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			return note(con, "Deleted the draft of the policy %s.", output.Escape(args[0]))(client.Call(c.Context(), server, wire.DeletePolicy, wire.PolicyDeletion{Name: compared.Draft.Name, Expect: compared.Draft.ETag}))
		}),
	}
}

func newPolicyRename(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "Rename a policy; it keeps its counts, versions and offences",
		Long: `Rename a policy. It keeps its counts, versions and offences, and its draft is renamed too.
Gateways and applications that name the policy in their checks must then use the new name:
a check that names a policy that does not exist fails.`,
		Example: "admin policy rename search site-search",
		Args:    cobra.ExactArgs(2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			seen, err := client.Call(c.Context(), server, wire.GetPolicy, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			return note(con, "Renamed the policy %s to %s. Checks that name it must use the new name.", output.Escape(args[0]), output.Escape(args[1]))(client.Call(c.Context(), server, wire.RenamePolicy, wire.PolicyRename{Of: args[0], Name: args[1], Expect: seen.ETag}))
		}),
	}
}
