package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(enforce, newProposal) }

func newProposal(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "proposal",
		Short:   "Decide on range blocks that Stint proposes",
		Example: "admin proposal list\nadmin proposal show 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933\nadmin proposal accept 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --for 24h",
	}, newProposalList(con), newProposalShow(con), newProposalAccept(con), newProposalDismiss(con))
}

func newProposalList(con *console.Console) *cobra.Command {
	var all, decided bool
	c := pagedCommand(con, cobra.Command{
		Short:   "List ranges in which many addresses offended",
		Example: "admin proposal list\nadmin proposal list --all -o json",
	}, wire.ListProposals, proposalColumns, func() wire.ProposalList {
		switch {
		case all:
			return wire.ProposalList{State: "all"}
		case decided:
			return wire.ProposalList{State: "decided"}
		}
		return wire.ProposalList{State: "open"}
	})
	c.Flags().BoolVar(&all, "all", false, "include decided proposals")
	c.Flags().BoolVar(&decided, "decided", false, "list the decided proposals instead of the open ones")
	c.MarkFlagsMutuallyExclusive("all", "decided")
	return c
}

func newProposalShow(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a proposal's evidence: who offended, who did not, who is exempt",
		Example: "admin proposal show 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			proposal, err := client.Call(c.Context(), server, wire.GetProposal, wire.ByID{ID: args[0]})
			if err != nil {
				return err
			}
			p := con.Printer()
			if err := output.One(p, proposal, proposalColumns); err != nil || p.Format != output.Table {
				return err
			}
			return printEvidence(p, &proposal.Evidence)
		}),
	}
}

func printEvidence(p *output.Printer, e *wire.Evidence) error {
	if e.Checked > 0 {
		p.Sayf("\nEach that offended did so at least %d times; %d of the %d checks of the range were refused, reports over a limit included.", e.MinOffences, e.Refused, e.Checked)
	}
	for _, r := range e.Requests {
		p.Sayf("\n%s asked to block it: %s. It needs a confirmation: %s.", output.Escape(r.Source), output.Escape(r.Reason), output.Escape(r.ConfirmReason))
	}
	for _, of := range []struct {
		title string
		keys  []wire.SeenKey
	}{{"Offended", e.Offended}, {"Seen, no offence", e.Seen}} {
		if len(of.keys) == 0 {
			continue
		}
		p.Sayf("\n%s", of.title)
		if err := output.List(p, of.keys, seenKeyColumns); err != nil {
			return err
		}
	}
	for _, pattern := range e.Exempt {
		p.Sayf("\n%s is exempt and stays allowed.", output.Escape(pattern))
	}
	return nil
}

var seenKeyColumns = output.Columns[wire.SeenKey]("key: Key, refused: Refused, allowed: Allowed")

func newProposalAccept(con *console.Console) *cobra.Command {
	var r wire.AcceptProposalRequest
	var end endFlags
	var yes bool
	c := &cobra.Command{
		Use:     "accept ID",
		Short:   "Block the proposed range",
		Example: "admin proposal accept 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --for 24h --reason \"a botnet\"",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if err := end.useDefault(con); err != nil {
				return err
			}
			r.ID, r.ExpiresIn, r.ExpiresAt = args[0], end.in.Duration, end.at.Time
			impact := func(pattern string) error { return showImpact(c.Context(), con, server, pattern, true) }
			return printOne(con, proposalColumns)(confirmEntry(con, yes, impact, func(confirm string) (wire.Proposal, error) {
				r.Confirm = confirm
				return client.Call(c.Context(), server, wire.AcceptProposal, r)
			}))
		}),
	}
	c.Flags().StringVar(&r.Reason, "reason", "", "the block's reason; the evidence if omitted")
	yesFlag(c, &yes)
	end.addWithPermanent(c, "the block is active", wire.DefaultBlock)
	return c
}

func newProposalDismiss(con *console.Console) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "dismiss ID",
		Short:   "Dismiss a proposal without a block",
		Example: "admin proposal dismiss 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --reason \"a university\"",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return printOne(con, proposalColumns)(client.Call(c.Context(), server, wire.DismissProposal, wire.EndRequest{ID: args[0], Reason: reason}))
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, for the audit log")
	return c
}

var proposalColumns = []output.Column[wire.Proposal]{
	{Name: "pattern", Head: "Range", Cell: func(p wire.Proposal) output.Cell { return output.Text(p.Pattern) }},
	{Name: "state", Head: "State", Drop: 2, Cell: func(p wire.Proposal) output.Cell { return output.Text(p.State) }},
	{Name: "offended_count", Head: "Offended", Right: true, Cell: func(p wire.Proposal) output.Cell { return output.Number(p.Evidence.OffendedCount) }},
	{Name: "size", Head: "Of", Right: true, Cell: func(p wire.Proposal) output.Cell { return output.Number(p.Evidence.Size) }},
	{Name: "offences", Head: "Refused", Right: true, Cell: func(p wire.Proposal) output.Cell { return output.Number(p.Evidence.Offences) }},
	{Name: "seen_count", Head: "Seen, no offence", Right: true, Cell: func(p wire.Proposal) output.Cell { return output.Number(p.Evidence.SeenCount) }},
	{Name: "exempt", Head: "Exempt", Right: true, Cell: func(p wire.Proposal) output.Cell { return output.Number(len(p.Evidence.Exempt)) }},
	{Name: "created_at", Head: "Since", Drop: 1, Cell: func(p wire.Proposal) output.Cell { return output.Time(p.CreatedAt.Time) }},
	{Name: "decided_by", Head: "Decided by", Drop: 3, Cell: func(p wire.Proposal) output.Cell { return output.Text(string(p.DecidedBy)) }},
	{Name: "reason", Cell: func(p wire.Proposal) output.Cell { return output.Text(string(p.Reason)) }},
	{Name: "id", Head: "Id", Cell: func(p wire.Proposal) output.Cell { return output.Text(p.ID) }},
}
