package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() {
	addCommands(monitor, newBots)
	addCommands(administration, newRobots)
}

func newBots(con *console.Console) *cobra.Command {
	var last durationFlag
	c := &cobra.Command{
		Use:   "bots",
		Short: "Show the bots that say who they are",
		Long: `Show which bots that say who they are came to any node, how they were verified, by which
pattern a block or a policy selects these requests, and how many of them were refused. What
ends in /claimed or /spoofed selects only those who say to be the bot and are not verified,
or are proven not to be it.`,
		Example: "admin bots\nadmin bots --last 7d -o csv",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Call(c.Context(), server, wire.GetBots, wire.BotsSeen{Last: last.Duration})
			if err != nil {
				return err
			}
			return printItems(con, found.Items, botColumns)
		}),
	}
	c.Flags().Var(&last, "last", "how far back, 1h to 7d; a day if omitted")
	c.AddCommand(newBotLists(con))
	return c
}

func newBotLists(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "lists",
		Short: "Show the lists of addresses and keys that operators of bots publish",
		Long: `Show the lists of addresses and keys that operators of bots publish, as the node has them:
when each was fetched, why the last fetch failed, and why the last signature that names its
keys verified nobody. Keys that were not fetched for 7 days verify nobody.`,
		Example: "admin bots lists\nadmin bots lists -o json",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Call(c.Context(), server, wire.GetBots, wire.BotsSeen{})
			if err != nil {
				return err
			}
			return printItems(con, found.Lists, botListColumns)
		}),
	}
}

var botListColumns = output.Columns(`url: List, prefixes: Prefixes, keys: Keys, fetched_at: Fetched (or never), state: State,
	problem: Problem, refused: Last signature`, output.Cells[wire.BotList]{
	"state": func(l wire.BotList) output.Cell {
		switch {
		case l.IsIgnored:
			return output.Text("ignored")
		case l.Problem != "":
			return output.Text("failed")
		case l.Fetched.IsZero():
			return output.Text("never fetched")
		}
		return output.Text("current")
	},
})

var botColumns = output.Columns[wire.Bot](`bot: Bot, category: Category, verified: Verified, pattern: Pattern, requests: Requests,
	refused: Refused`)

func newRobots(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "robots",
		Short: "Print the part of a robots.txt that says which bots are refused",
		Long: `Print the part of a robots.txt that asks those bots to stay away that blocks and policies
refuse wholly, for example the block of category:ai-training. It says nothing of other bots:
add it to the file that you have.`,
		Example: "admin robots",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Call(c.Context(), server, wire.GetBots, wire.BotsSeen{})
			if err != nil {
				return err
			}
			_, err = con.Out().Write([]byte(found.Robots))
			return err
		}),
	}
}
