package cli

import (
	"io"

	"github.com/spf13/cobra"

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
		Example: "admin block export > blocks.csv\nadmin block export -o json > blocks.json\nadmin block export --plain --within 'ip:*' > addresses.txt",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			filter := f.query()
			filter.Set("format", "csv")
			switch {
			case plain:
				filter.Set("format", "plain")
			case a.output == string(output.JSON):
				filter.Set("format", "json")
			}
			file, err := from.ExportBlocks(c.Context(), filter)
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = io.Copy(a.sys.Stdout, file)
			return err
		},
	}
	f.addFilter(c)
	c.Flags().BoolVar(&plain, "plain", false, "one pattern a line")
	return c
}
