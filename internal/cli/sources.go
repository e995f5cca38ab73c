package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newBlockSource(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "source",
		Short: "Pull lists again and again, and keep blocks or exemptions equal to them",
		Long: `Pull lists again and again. The rows of a list are in force as blocks or exemptions until they
leave it, unless somebody else holds them too. Exemptions have priority, and no list blocks
private addresses, those of this installation or its trusted proxies. A pull that adds or ends
more than half of the rows is held until somebody agrees. docs/LISTS.md says more.`,
		Example: "admin block source catalogue\nadmin block source add spamhaus-drop\nadmin block source add partners https://lists.example.com/partners.csv --every 1h --as exempt\nadmin block source list",
	}
	c.AddCommand(newSourceAdd(con), listCommand(con, cobra.Command{
		Short: "List the lists that are pulled", Example: "admin block source list",
	}, wire.ListBlockSources, sourceColumns, noFilter),
		newSourceCommand(con, "show", "Show a list that is pulled", wire.GetBlockSource),
		newSourceCommand(con, "pull", "Pull a list now", wire.PullBlockSource),
		newSourceCommand(con, "agree", "Agree to a pull that is held because it changes much", wire.AgreeBlockSource),
		newSourceDelete(con), listCommand(con, cobra.Command{
			Use: "catalogue", Short: "List well-known lists with their licences and advice",
			Long:    "List well-known lists. None is pulled until you add it by its name: 'block source add NAME'.",
			Example: "admin block source catalogue\nadmin block source catalogue -o json",
		}, wire.ListKnownLists, knownListColumns, noFilter))
	return c
}

func newSourceAdd(con *console.Console) *cobra.Command {
	var r wire.BlockSourceRequest
	var every durationFlag
	c := &cobra.Command{
		Use:   "add NAME [URL]",
		Short: "Add a list, and pull it at once",
		Long: `Add a list, and pull it at once. Without a URL it is the one that the catalogue has under that
name. A list that challenges lets clients with a pass through. A list in shadow mode refuses
nothing: its page and metrics say what it would have refused.`,
		Example: "admin block source add spamhaus-drop\nadmin block source add tor-exits --as shadow\nadmin block source add own https://lists.example.com/bad.txt --every 15m\nadmin block source add abuseipdb --header 'Key: abc'",
		Args:    cobra.RangeArgs(1, 2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			r.Name, r.Every = args[0], every.Duration
			if len(args) > 1 {
				r.URL = args[1]
			}
			source, err := client.Call(c.Context(), server, wire.AddBlockSource, r)
			if err != nil {
				return err
			}
			return printSource(con, source)
		}),
	}
	flags := c.Flags()
	flags.Var(&every, "every", "how often it is pulled, 5m to 31d; 1h, or as the catalogue says, if omitted")
	flags.StringVar(&r.As, "as", "", "what its rows do: block, challenge, exempt, shadow or attack; block, or as the catalogue says, if omitted")
	flags.StringVar(&r.Format, "format", "", "auto, csv, json or plain; auto if omitted")
	flags.StringVar(&r.Column, "column", "", "where the patterns are in a table of another form")
	flags.StringVar(&r.Header, "header", "", "a header of the requests, such as 'Key: abc'; it is kept encrypted")
	console.CompleteFlag(c, "as", "block", "challenge", "exempt", "shadow", "attack")
	return c
}

func newSourceCommand(con *console.Console, use, short string, op wire.Op[wire.ByName, wire.BlockSource]) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Example: "admin block source " + use + " spamhaus-drop", Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			source, err := client.Call(c.Context(), server, op, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			return printSource(con, source)
		}),
	}
}

// printSource prints a source. The error is that of its last pull.
func printSource(con *console.Console, s wire.BlockSource) error {
	if err := output.One(con.Printer(), s, sourceDetail); err != nil || s.Error == "" {
		return err
	}
	return fmt.Errorf("the list could not be pulled: %s", s.Error)
}

func newSourceDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Aliases: []string{"remove"}, Short: "Delete a source: its rows end, unless another source holds them too",
		Example: "admin block source delete tor-exits", Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return note(con, "Deleted the source %s.", output.Escape(args[0]))(client.Call(c.Context(), server, wire.RemoveBlockSource, wire.ByName{Name: args[0]}))
		}),
	}
}

var sourceColumns = []output.Column[wire.BlockSource]{
	{Name: "name", Head: "Name", Cell: func(s wire.BlockSource) output.Cell { return output.Text(s.Name) }},
	{Name: "as", Head: "As", Cell: func(s wire.BlockSource) output.Cell { return output.Text(s.As) }},
	{Name: "state", Head: "State", Cell: func(s wire.BlockSource) output.Cell { return output.Text(s.State) }},
	{Name: "rows", Head: "Rows", Right: true, Cell: func(s wire.BlockSource) output.Cell { return output.Number(s.Rows) }},
	{Name: "refused", Head: "Refused, 24h", Right: true, Drop: 2, Cell: func(s wire.BlockSource) output.Cell { return output.Number(s.Refused) }},
	{Name: "pulled_at", Head: "Pulled", Drop: 1, Cell: func(s wire.BlockSource) output.Cell { return output.Time(s.PulledAt.Time) }},
	{Name: "error", Head: "Error", Cut: true, Cell: func(s wire.BlockSource) output.Cell { return output.Text(string(s.Error)) }},
}

// sourceDetail are the columns of one source.
var sourceDetail = append(sourceColumns[:len(sourceColumns):len(sourceColumns)], output.Columns(`url: URL, every: Every, format: Format, column: Column, has_header: Has a header,
	invalid: Invalid rows, left_out: Rows left out, notes: Of these, held: Held, checked_at: Asked for, changed_at: Changed, next_at: Next,
	author: By, created_at: Since`, output.Cells[wire.BlockSource]{
	"held": func(s wire.BlockSource) output.Cell { return output.Text(heldText(s.Held)) },
})...)

func heldText(h *wire.HeldPull) string {
	if h == nil {
		return ""
	}
	text := fmt.Sprintf("%d rows, %d new and %d gone", h.Rows, h.Added, h.Ended)
	if h.Ratio != nil {
		text += fmt.Sprintf("; would have refused %.2f%% of the last day's allowed checks", *h.Ratio*100)
	}
	return text + "; see 'block source agree'"
}

var knownListColumns = output.Columns[wire.KnownList](`name: Name, title: Title, as: As, every: Every (drop 2), added: Added, license: Licence (cut drop 1),
	advice: Advice (cut), header, url`)
