package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/output"
)

func newBlockExport(a *app) *cobra.Command {
	var f listFlags
	var plain bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write blocks as a file that import reads",
		Long: `Write the active blocks, or those that the flags select, in a form that 'block import'
reads: CSV, JSON with -o json, or with --plain one pattern a line.`,
		Example: "admin block export > blocks.csv\nadmin block export -o json > blocks.json\nadmin block export --plain --within ip:* > addresses.txt",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			found, err := client.Blocks(c.Context(), f.query(), 0)
			if err != nil {
				return err
			}
			return a.exportBlocks(c, found.Items, plain)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&plain, "plain", false, "one pattern a line")
	return c
}

func (a *app) exportBlocks(c *cobra.Command, found []v1.Block, plain bool) error {
	p := a.printer()
	if plain {
		for _, b := range found {
			if _, err := fmt.Fprintln(p.Out, output.Escape(b.Pattern)); err != nil {
				return err
			}
		}
		return nil
	}
	if !c.Flags().Changed("output") {
		p.Format = output.CSV
	}
	return output.List(p, found, blockDetail)
}
