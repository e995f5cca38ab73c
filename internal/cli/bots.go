package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

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
	return c
}

var botColumns = []output.Column[wire.Bot]{
	{Name: "bot", Head: "Bot", Cell: func(b wire.Bot) output.Cell { return output.Text(b.Bot) }},
	{Name: "category", Head: "Category", Cell: func(b wire.Bot) output.Cell { return output.Text(b.Category) }},
	{Name: "verified", Head: "Verified", Cell: func(b wire.Bot) output.Cell { return output.Text(b.Verified) }},
	{Name: "pattern", Head: "Pattern", Cell: func(b wire.Bot) output.Cell { return output.Text(b.Pattern) }},
	{Name: "requests", Head: "Requests", Cell: func(b wire.Bot) output.Cell { return output.Number(b.Requests) }},
	{Name: "refused", Head: "Refused", Cell: func(b wire.Bot) output.Cell { return output.Number(b.Refused) }},
}

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
