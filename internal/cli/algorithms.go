package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newPolicyAlgorithms(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "algorithms",
		Short:   "List the algorithms and their options",
		Example: "admin policy algorithms\nadmin policy algorithms -o json",
		Args:    cobra.NoArgs,
		RunE: a.online(func(c *cobra.Command, client *client.Client, _ []string) error {
			algorithms, err := client.Algorithms(c.Context())
			if err != nil {
				return err
			}
			return output.List(a.printer(), algorithms, algorithmColumns)
		}),
	}
}

var algorithmColumns = []output.Column[wire.Algorithm]{
	{Name: "name", Head: "Name", Cell: func(x wire.Algorithm) output.Cell { return output.Text(x.Name) }},
	{Name: "exact", Head: "Exact", Cell: func(x wire.Algorithm) output.Cell { return output.YesNo(x.Exact) }},
	{Name: "options", Head: "Options", Cell: func(x wire.Algorithm) output.Cell { return output.Texts(x.Options) }},
	{Name: "summary", Head: "What it does", Cut: true, Cell: func(x wire.Algorithm) output.Cell { return output.Text(x.Summary) }},
}
