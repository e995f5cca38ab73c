package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

func newBlockRestore(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "restore BLOCK",
		Short: "Bring a lifted block back, until its old end",
		Long: `Bring a lifted block back, until its old end. BLOCK is its id, or its pattern for the one
that was lifted last. What is broad is confirmed as when it is added.`,
		Example: "admin block restore ip:203.0.113.7",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			id, err := liftedBlock(c, from, args[0])
			if err != nil {
				return err
			}
			lifts, err := from.Audit(c.Context(), url.Values{"action": {"block.lift"}, "object_id": {id}}, 1)
			if err != nil {
				return err
			}
			if len(lifts.Items) == 0 {
				return usagef("the block %s was not lifted; see 'block show'", id)
			}
			undone, err := a.undo(c, from, &lifts.Items[0], yes)
			if err != nil {
				return err
			}
			b, err := from.Block(c.Context(), undone.ObjectID)
			if err != nil {
				return err
			}
			return output.One(a.printer(), *b, blockDetail)
		},
	}
	yesFlag(c, &yes)
	return c
}

// liftedBlock finds the id of a lifted block.
func liftedBlock(c *cobra.Command, from *client.Client, arg string) (string, error) {
	if isID(arg) {
		return arg, nil
	}
	pattern, err := canonicalPattern(arg)
	if err != nil {
		return "", err
	}
	found, err := from.Blocks(c.Context(), url.Values{"within": {arg}, "state": {"ended"}}, 0)
	if err != nil {
		return "", err
	}
	for _, b := range found.Items { // the newest first
		if !b.LiftedAt.IsZero() && samePattern(b.Pattern, pattern) {
			return b.ID, nil
		}
	}
	return "", usagef("no block of %q was lifted; see 'block list --state ended'", arg)
}
