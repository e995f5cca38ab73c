package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

const patternHelp = `A pattern is an exact key (token:abc), a prefix (token:test_*), an address or CIDR
(ip:203.0.113.0/24), ip:* or *. A bare IPv6 address means the network that its client is
counted by; write /128 for the one address.`

func newBlock(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "block",
		Short:   "Refuse keys until a block expires or is lifted",
		Example: "admin block add ip:203.0.113.7 --reason scraping --for 24h\nadmin block list",
	}
	c.AddCommand(newBlockAdd(a), newBlockList(a), newBlockShow(a), newBlockEdit(a), newBlockLift(a), newBlockRestore(a),
		newBlockPreview(a), newBlockImport(a), newBlockExport(a))
	return c
}

func newBlockAdd(a *app) *cobra.Command {
	var b wire.BlockRequest
	var end endFlags
	var yes bool
	c := &cobra.Command{
		Use:   "add PATTERN",
		Short: "Block a pattern of keys",
		Long: `Block every key that a pattern selects, for a while or for good.

` + patternHelp,
		Example: `admin block add ip:203.0.113.7 --reason scraping --for 24h
admin block add 'token:test_*' --reason "leaked" --until 2026-12-31T18:00:00Z
admin block add ip:203.0.113.0/24 --reason scraping --for 7d --on-conflict extend`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			b.Pattern, b.ExpiresIn, b.ExpiresAt = args[0], end.in.Duration, end.at.Time
			client, err := a.client()
			if err != nil {
				return err
			}
			added, err := confirming(a, yes, func(pattern string) error { return a.tellRadius(c.Context(), client, pattern) }, func(confirm string) (*wire.AddedBlock, error) {
				b.Confirm = confirm
				return client.AddBlock(c.Context(), b)
			})
			if err != nil {
				return err
			}
			a.warn(added.Warnings)
			return a.printAdded(added, added.Outcome, added.Block)
		},
	}
	c.Flags().StringVar(&b.Reason, "reason", "", "why, for the other operators and the one who is refused")
	c.Flags().StringVar(&b.OnConflict, "on-conflict", "", "where the pattern is blocked already: fail, extend or replace (default fail)")
	yesFlag(c, &yes)
	end.add(c, "it stands")
	mustHave(c, "reason")
	return c
}

func (a *app) printAdded(whole any, outcome string, b wire.Block) error {
	p := a.printer()
	if p.Format == output.JSON {
		return p.JSON(whole)
	}
	p.Sayf("Block %s.", output.Escape(outcome))
	return output.One(p, b, blockDetail)
}

func newBlockList(a *app) *cobra.Command {
	var f listFlags
	var source string
	c := &cobra.Command{
		Use:   "list",
		Short: "List blocks",
		Example: `admin block list
admin block list --key ip:203.0.113.7 --state all
admin block list --source automatic --limit 0 -o csv > blocks.csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			filter := f.query()
			setIf(filter, "source", source)
			found, err := client.Blocks(c.Context(), filter, f.limit)
			if err != nil {
				return err
			}
			return printListing(a, found, blockColumns)
		},
	}
	f.add(c)
	c.Flags().StringVar(&source, "source", "", "manual, automatic or imported")
	return c
}

func newBlockShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show BLOCK",
		Short:   "Show one block",
		Long:    "Show one block. BLOCK is its id, or its pattern while it is active.",
		Example: "admin block show ip:203.0.113.0/24",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			b, err := findBlock(c, from, args[0])
			if err != nil {
				return err
			}
			return output.One(a.printer(), *b, blockDetail)
		},
	}
}

func newBlockEdit(a *app) *cobra.Command {
	var change editFlags
	c := &cobra.Command{
		Use:     "edit BLOCK",
		Short:   "Change the reason or the end of a block",
		Long:    "Change the reason or the end of a block.\nBLOCK is its id, or its pattern while it is active.",
		Example: "admin block edit ip:203.0.113.0/24 --for 7d\nadmin block edit ip:203.0.113.7 --permanent --reason \"it came back\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			b, err := findBlock(c, from, args[0])
			if err != nil {
				return err
			}
			patch := change.patch(c, b.Revision)
			b, err = confirming(a, change.yes, func(pattern string) error { return a.tellRadius(c.Context(), from, pattern) }, func(confirm string) (*wire.Block, error) {
				patch.Confirm = confirm
				return from.EditBlock(c.Context(), b.ID, patch)
			})
			if err != nil {
				return err
			}
			return output.One(a.printer(), *b, blockDetail)
		},
	}
	change.add(c)
	return c
}

func newBlockLift(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "lift BLOCK...",
		Short:   "End blocks now",
		Long:    "End blocks now. BLOCK is an id, or a pattern that is blocked. 'block restore' brings one back.",
		Example: "admin block lift ip:203.0.113.7 --reason \"wrong customer\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			var lifted []wire.Block
			for _, arg := range args {
				b, err := findBlock(c, from, arg)
				if err == nil {
					b, err = from.LiftBlock(c.Context(), b.ID, reason)
				}
				if err != nil {
					return partly(a, len(lifted), len(args), "lifted", err)
				}
				lifted = append(lifted, *b)
			}
			if p := a.printer(); p.Format != output.Table {
				return output.List(p, lifted, blockColumns)
			}
			for _, b := range lifted {
				a.printer().Sayf("Lifted the block of %s.", output.Escape(b.Pattern))
			}
			return nil
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return c
}

var blockColumns = []output.Column[wire.Block]{
	{Name: "pattern", Head: "Pattern", Cut: true, Cell: func(b wire.Block) output.Cell { return output.Text(b.Pattern) }},
	{Name: "state", Head: "State", Drop: 3, Cell: blockState},
	{Name: "expires_at", Head: "Expires", Cell: func(b wire.Block) output.Cell { return output.TimeOr(b.ExpiresAt.Time, "for good") }},
	{Name: "reason", Head: "Reason", Cut: true, Cell: func(b wire.Block) output.Cell { return output.Text(b.Reason) }},
	{Name: "author", Head: "By", Cell: func(b wire.Block) output.Cell { return output.Text(b.Author) }},
	{Name: "source", Head: "Source", Drop: 4, Cell: func(b wire.Block) output.Cell { return output.Text(b.Source) }},
	{Name: "created_at", Head: "Since", Drop: 2, Cell: func(b wire.Block) output.Cell { return output.Time(b.CreatedAt.Time) }},
	{Name: "id", Head: "Id", Drop: 1, Cell: func(b wire.Block) output.Cell { return output.Text(b.ID) }},
}

var blockDetail = append(append([]output.Column[wire.Block]{}, blockColumns...),
	output.Column[wire.Block]{Name: "policy", Head: "Policy", Cell: func(b wire.Block) output.Cell { return output.Text(string(b.Policy)) }},
	output.Column[wire.Block]{Name: "step", Head: "Step", Cell: func(b wire.Block) output.Cell {
		if b.Level == nil {
			return output.Cell{}
		}
		return output.Number(*b.Level)
	}},
	output.Column[wire.Block]{Name: "lifted_at", Head: "Lifted", Cell: func(b wire.Block) output.Cell { return output.Time(b.LiftedAt.Time) }},
	output.Column[wire.Block]{Name: "lifted_by", Head: "Lifted by", Cell: func(b wire.Block) output.Cell { return output.Text(string(b.LiftedBy)) }},
)

func blockState(b wire.Block) output.Cell {
	switch {
	case b.Active:
		return output.Words("active", "active")
	case !b.LiftedAt.IsZero():
		return output.Words("lifted", "lifted")
	default:
		return output.Words("expired", "expired")
	}
}

// findBlock finds a block by its id, or an active one by its pattern.
func findBlock(c *cobra.Command, from *client.Client, arg string) (*wire.Block, error) {
	if isID(arg) {
		return from.Block(c.Context(), arg)
	}
	pattern, err := canonicalPattern(arg)
	if err != nil {
		return nil, err
	}
	found, err := from.Blocks(c.Context(), url.Values{"within": {arg}}, 0)
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		if samePattern(found.Items[i].Pattern, pattern) {
			return &found.Items[i], nil
		}
	}
	return nil, usagef("%q is not blocked; see 'block list'", arg)
}
