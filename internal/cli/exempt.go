package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newExempt(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "exempt",
		Short:   "Let keys through whatever rules and blocks say",
		Example: "admin exempt add ip:198.51.100.7 --reason \"our monitoring\"\nadmin exempt list",
	}
	c.AddCommand(newExemptAdd(a), newExemptList(a), newExemptShow(a), newExemptEdit(a), newExemptRemove(a))
	return c
}

func newExemptAdd(a *app) *cobra.Command {
	var e wire.ExemptionRequest
	var end endFlags
	var yes bool
	c := &cobra.Command{
		Use:   "add PATTERN",
		Short: "Exempt a pattern of keys",
		Long: `Exempt every key that a pattern selects: no rule and no block touches it.

` + patternHelp,
		Example: "admin exempt add ip:198.51.100.7 --reason \"our monitoring\"\nadmin exempt add token:partner --reason migration --for 7d",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			e.Pattern, e.ExpiresIn, e.ExpiresAt = args[0], end.in.Duration, end.at.Time
			client, err := a.client()
			if err != nil {
				return err
			}
			added, err := confirming(a, yes, func(string) error { return nil }, func(confirm string) (*wire.AddedExemption, error) {
				e.Confirm = confirm
				return client.AddExemption(c.Context(), e)
			})
			if err != nil {
				return err
			}
			a.warn(added.Warnings)
			p := a.printer()
			if p.Format == output.JSON {
				return p.JSON(added)
			}
			p.Sayf("Exemption %s.", output.Escape(added.Outcome))
			return output.One(p, added.Exemption, exemptionDetail)
		},
	}
	c.Flags().StringVar(&e.Reason, "reason", "", "why, for the other operators")
	c.Flags().StringVar(&e.OnConflict, "on-conflict", "", "where the pattern is exempt already: fail, extend or replace (default fail)")
	yesFlag(c, &yes)
	end.add(c, "it stands")
	mustHave(c, "reason")
	return c
}

func newExemptList(a *app) *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "List exemptions",
		Example: "admin exempt list\nadmin exempt list --state all -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			found, err := client.Exemptions(c.Context(), f.query(), f.limit)
			if err != nil {
				return err
			}
			return printListing(a, found, exemptionColumns)
		},
	}
	f.add(c)
	return c
}

func newExemptShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show EXEMPTION",
		Short:   "Show one exemption",
		Long:    "Show one exemption. EXEMPTION is its id, or its pattern while it is active.",
		Example: "admin exempt show ip:198.51.100.7",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			e, err := findExemption(c, from, args[0])
			if err != nil {
				return err
			}
			return output.One(a.printer(), *e, exemptionDetail)
		},
	}
}

func newExemptEdit(a *app) *cobra.Command {
	var change editFlags
	c := &cobra.Command{
		Use:     "edit EXEMPTION",
		Short:   "Change the reason or the end of an exemption",
		Long:    "Change the reason or the end of an exemption.\nEXEMPTION is its id, or its pattern while it is active.",
		Example: "admin exempt edit token:partner --for 14d",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			e, err := findExemption(c, from, args[0])
			if err != nil {
				return err
			}
			patch := change.patch(c, e.Revision)
			e, err = confirming(a, change.yes, func(string) error { return nil }, func(confirm string) (*wire.Exemption, error) {
				patch.Confirm = confirm
				return from.EditExemption(c.Context(), e.ID, patch)
			})
			if err != nil {
				return err
			}
			return output.One(a.printer(), *e, exemptionDetail)
		},
	}
	change.add(c)
	return c
}

func newExemptRemove(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "remove EXEMPTION...",
		Short:   "End exemptions now",
		Long:    "End exemptions now. EXEMPTION is an id, or a pattern that is exempt.",
		Example: "admin exempt remove token:partner --reason \"the migration is over\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			var removed []wire.Exemption
			for _, arg := range args {
				e, err := findExemption(c, from, arg)
				if err == nil {
					e, err = from.RemoveExemption(c.Context(), e.ID, reason)
				}
				if err != nil {
					return partly(a, len(removed), len(args), "removed", err)
				}
				removed = append(removed, *e)
			}
			if p := a.printer(); p.Format != output.Table {
				return output.List(p, removed, exemptionColumns)
			}
			for _, e := range removed {
				a.printer().Sayf("Removed the exemption of %s.", output.Escape(e.Pattern))
			}
			return nil
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return c
}

var exemptionColumns = []output.Column[wire.Exemption]{
	{Name: "pattern", Head: "Pattern", Cut: true, Cell: func(e wire.Exemption) output.Cell { return output.Text(e.Pattern) }},
	{Name: "state", Head: "State", Drop: 3, Cell: exemptionState},
	{Name: "expires_at", Head: "Expires", Cell: func(e wire.Exemption) output.Cell { return output.TimeOr(e.ExpiresAt.Time, "for good") }},
	{Name: "reason", Head: "Reason", Cut: true, Cell: func(e wire.Exemption) output.Cell { return output.Text(e.Reason) }},
	{Name: "author", Head: "By", Cell: func(e wire.Exemption) output.Cell { return output.Text(e.Author) }},
	{Name: "created_at", Head: "Since", Drop: 2, Cell: func(e wire.Exemption) output.Cell { return output.Time(e.CreatedAt.Time) }},
	{Name: "id", Head: "Id", Drop: 1, Cell: func(e wire.Exemption) output.Cell { return output.Text(e.ID) }},
}

var exemptionDetail = append(append([]output.Column[wire.Exemption]{}, exemptionColumns...),
	output.Column[wire.Exemption]{Name: "removed_at", Head: "Removed", Cell: func(e wire.Exemption) output.Cell { return output.Time(e.RemovedAt.Time) }},
	output.Column[wire.Exemption]{Name: "removed_by", Head: "Removed by", Cell: func(e wire.Exemption) output.Cell { return output.Text(string(e.RemovedBy)) }},
)

func exemptionState(e wire.Exemption) output.Cell {
	switch {
	case e.Active:
		return output.Words("active", "active")
	case !e.RemovedAt.IsZero():
		return output.Words("removed", "removed")
	default:
		return output.Words("expired", "expired")
	}
}

// findExemption finds an exemption by its id, or an active one by its pattern.
func findExemption(c *cobra.Command, from *client.Client, arg string) (*wire.Exemption, error) {
	if isID(arg) {
		return from.Exemption(c.Context(), arg)
	}
	pattern, err := canonicalPattern(arg)
	if err != nil {
		return nil, err
	}
	found, err := from.Exemptions(c.Context(), url.Values{"within": {arg}}, 0)
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		if samePattern(found.Items[i].Pattern, pattern) {
			return &found.Items[i], nil
		}
	}
	return nil, usagef("%q is not exempt; see 'exempt list'", arg)
}
