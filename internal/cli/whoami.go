package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newWhoami(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show whose token is used and what it may do",
		Example: "admin whoami\nadmin whoami --url https://stint.example.com:8081 --token-file ~/.stint-token",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			who, err := server.Whoami(c.Context())
			if err != nil {
				return err
			}
			return output.One(con.Printer(), who, whoamiColumns)
		}),
	}
}

var whoamiColumns = []output.Column[*wire.Whoami]{
	{Name: "name", Head: "Name", Cell: func(w *wire.Whoami) output.Cell { return output.Text(w.Name) }},
	{Name: "kind", Head: "Kind", Cell: func(w *wire.Whoami) output.Cell { return output.Text(w.Kind) }},
	{Name: "scopes", Head: "May", Cell: func(w *wire.Whoami) output.Cell { return output.Texts(w.Scopes) }},
	{Name: "expires_at", Head: "Expires", Cell: func(w *wire.Whoami) output.Cell { return output.TimeOr(w.ExpiresAt.Time, "never") }},
	{Name: "address", Head: "Seen from", Cell: func(w *wire.Whoami) output.Cell { return output.Text(w.Address) }},
	{Name: "id", Head: "Id", Cell: func(w *wire.Whoami) output.Cell { return output.Text(w.ID) }},
}
