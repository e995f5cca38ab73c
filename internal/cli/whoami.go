package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

func newWhoami(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show whose token is used and what it may do",
		Example: "admin whoami\nadmin whoami --url https://stint.example.com:8081 --token-file ~/.stint-token",
		Args:    cobra.NoArgs,
		RunE: a.online(func(c *cobra.Command, client *client.Client, _ []string) error {
			who, err := client.Whoami(c.Context())
			if err != nil {
				return err
			}
			return output.One(a.printer(), who, whoamiColumns)
		}),
	}
}

var whoamiColumns = []output.Column[*v1.Whoami]{
	{Name: "name", Head: "Name", Cell: func(w *v1.Whoami) output.Cell { return output.Text(w.Name) }},
	{Name: "kind", Head: "Kind", Cell: func(w *v1.Whoami) output.Cell { return output.Text(w.Kind) }},
	{Name: "scopes", Head: "May", Cell: func(w *v1.Whoami) output.Cell { return output.Texts(w.Scopes) }},
	{Name: "expires_at", Head: "Expires", Cell: func(w *v1.Whoami) output.Cell { return output.TimeOr(w.ExpiresAt.Time, "never") }},
	{Name: "address", Head: "Seen from", Cell: func(w *v1.Whoami) output.Cell { return output.Text(w.Address) }},
	{Name: "id", Head: "Id", Cell: func(w *v1.Whoami) output.Cell { return output.Text(w.ID) }},
}
