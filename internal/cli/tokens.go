package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newToken) }

func newToken(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "token",
		Short:   "Manage API tokens",
		Example: "admin token add edge-1 --scope check --for 90d\nadmin token list",
	}, newTokenAdd(con), newTokenList(con), newTokenRotate(con), newTokenDelete(con))
}

func newTokenAdd(con *console.Console) *cobra.Command {
	var scopes []string
	var end endFlags
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a token; its secret is shown once",
		Long: `Add a token. Its secret is printed once; only its hash is stored.
Scopes: check makes checks, bouncer fetches the active blocks as a CrowdSec bouncer, captcha does so
for a bouncer where captchas are set up, read reads, operate also manages blocks, exemptions and
resets, admin does everything except check, bouncer and captcha.`,
		Example: "admin token add edge-1 --scope check\nadmin token add ci --scope admin --for 90d -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			created, err := client.Call(c.Context(), server, wire.AddToken, wire.TokenRequest{
				Name: args[0], Scopes: scopes, ExpiresIn: end.in.Duration, ExpiresAt: end.at.Time,
			})
			if err != nil {
				return err
			}
			return con.PrintToken(&created)
		}),
	}
	c.Flags().StringSliceVar(&scopes, "scope", nil, "check, bouncer, captcha, read, operate or admin; may be repeated")
	end.add(c, "the token works", "permanent")
	requireFlag(c, "scope")
	console.CompleteFlag(c, "scope", "check", "bouncer", "captcha", "read", "operate", "admin")
	return c
}

func newTokenList(con *console.Console) *cobra.Command {
	var all bool
	var filter wire.TokenList
	c := listCommand(con, cobra.Command{
		Short:   "List the tokens",
		Example: "admin token list\nadmin token list --search edge-\nadmin token list --all -o csv",
	}, wire.ListTokens, tokenColumns, func() wire.TokenList {
		if !all {
			filter.State = "active"
		}
		return filter
	})
	c.Flags().BoolVar(&all, "all", false, "include revoked and expired tokens")
	c.Flags().StringVar(&filter.Search, "search", "", "only tokens whose name or beginning contains this text, or whose secret it is")
	return c
}

func newTokenRotate(con *console.Console) *cobra.Command {
	var overlap overlapFlag
	c := &cobra.Command{
		Use:   "rotate TOKEN",
		Short: "Replace a token's secret; the old one works for an overlap",
		Long: `Create a new token with the same scopes and lifetime, and with the next number in its name:
edge-2 after edge or edge-1. The old secret keeps working for the overlap, so that nothing
stops while it is replaced.
TOKEN is a token's id or, if only one active token has it, its name.`,
		Example: "admin token rotate edge-1 --overlap 2h",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			token, err := findToken(c, server, args[0])
			if err != nil {
				return err
			}
			created, err := client.Call(c.Context(), server, wire.RotateToken, wire.RotateRequest{ID: token.ID, Overlap: overlap.change()})
			if err != nil {
				return err
			}
			return con.PrintToken(&created)
		}),
	}
	c.Flags().Var(&overlap, "overlap", "how long the old secret keeps working; 24h if omitted, 0s to end it now")
	return c
}

func newTokenDelete(con *console.Console) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "delete TOKEN",
		Short: "Delete a token: it is revoked now, on all nodes within seconds",
		Long: `Delete a token: it is revoked now, and stays in the list with --all. The one that the command
itself uses is confirmed.
TOKEN is its id or, if only one active token has it, its name.`,
		Example: "admin token delete edge-1",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			token, err := findToken(c, server, args[0])
			if err != nil {
				return err
			}
			if err := confirmOwnToken(c, con, server, token, yes); err != nil {
				return err
			}
			return note(con, "Deleted the token %s (%s…).", output.Escape(token.Name), output.Escape(token.Hint))(client.Call(c.Context(), server, wire.RevokeToken, wire.ByID{ID: token.ID}))
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "delete it without asking, also the one that this command uses")
	return c
}

// confirmOwnToken asks on a terminal for confirmation before the command deletes the token that
// it uses, unless yes is set.
func confirmOwnToken(c *cobra.Command, con *console.Console, server *client.Client, token *wire.Token, yes bool) error {
	if yes {
		return nil
	}
	caller, err := client.Call(c.Context(), server, wire.WhoAmI, wire.None{})
	if err != nil || caller.ID != token.ID {
		return err
	}
	return con.Confirm(fmt.Sprintf("The token %s is the one that this command uses; no further command can.", output.Escape(token.Name)), "--yes")
}

var tokenColumns = output.Columns(`name: Name (cut), hint: Begins (drop 2), scopes: May, state: State, expires_at: Expires (or never),
	last_used_at: Last used (drop 3 or never), author: By (drop 4), created_at: Created (drop 5), id: Id (drop 1)`, output.Cells[wire.Token]{
	"state": tokenState,
})

func tokenState(t wire.Token) output.Cell {
	switch {
	case t.Active:
		return output.Words("active", "active")
	case !t.RevokedAt.IsZero():
		return output.Words("revoked", "revoked")
	default:
		return output.Words("expired", "expired")
	}
}

// findToken finds a token by its id, or an active one by its name.
func findToken(c *cobra.Command, server *client.Client, nameOrID string) (*wire.Token, error) {
	tokens, err := client.Items(c.Context(), server, wire.ListTokens, wire.TokenList{})
	if err != nil {
		return nil, err
	}
	var named []wire.Token
	for _, t := range tokens {
		if t.ID == nameOrID {
			return &t, nil
		}
		if t.Name == nameOrID && t.Active {
			named = append(named, t)
		}
	}
	switch len(named) {
	case 0:
		return nil, console.NotFoundf("there is no active token %q; see 'token list'", nameOrID)
	case 1:
		return &named[0], nil
	default:
		return nil, console.Usagef("%d active tokens are called %q; give the id of one, see 'token list'", len(named), nameOrID)
	}
}
