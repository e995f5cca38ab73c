package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newSite) }

func newSite(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "site",
		Short:   "Show and correct what was learned of your sites",
		Example: "admin site list\nadmin site set shop.example.org --own-path '/phpmyadmin/*'",
	}
	c.AddCommand(listCommand(con, cobra.Command{
		Short: "List the sites whose answers are reported",
		Long: `List the sites whose answers are reported with their status, by host: with which statuses each
answers requests for what it does not have, and which programs it runs of those that scanners
look for.`,
		Example: "admin site list\nadmin site list -o json",
	}, wire.ListSites, siteColumns, noFilter), newSiteSet(con))
	return c
}

func newSiteSet(con *console.Console) *cobra.Command {
	var r wire.SiteRequest
	var none bool
	c := &cobra.Command{
		Use:   "set [HOST]",
		Short: "Name paths that are a site's own, or forget what was learned of it",
		Long: `Name the paths that are a site's own although scanners look for them, in place of those named
before: requests for them are no probes. --forget forgets what was learned, and keeps the paths.
Without a host it is about requests whose host is not known.`,
		Example: "admin site set shop.example.org --own-path '/phpmyadmin/*'\nadmin site set shop.example.org --forget",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if len(args) > 0 {
				r.Host = args[0]
			}
			if none {
				r.OwnPaths = []string{}
			}
			return note(con, "Corrected on this node, and on the others within a minute.")(client.Call(c.Context(), server, wire.CorrectSite, r))
		}),
	}
	c.Flags().StringArrayVar(&r.OwnPaths, "own-path", nil, "a pattern of paths that are the site's own; may be repeated, and replaces those before")
	c.Flags().BoolVar(&none, "no-own-paths", false, "no paths that are the site's own")
	c.Flags().BoolVar(&r.Forget, "forget", false, "forget what was learned of the site")
	c.MarkFlagsMutuallyExclusive("own-path", "no-own-paths")
	c.MarkFlagsOneRequired("own-path", "no-own-paths", "forget")
	return c
}

var siteColumns = output.Columns(`host: Host, missing_statuses: Missing, own_programs: Runs, own_paths: Own paths (drop 1),
	answers: Answers (drop 2)`, output.Cells[wire.Site]{
	"host": func(s wire.Site) output.Cell { return output.Text(cmp.Or(s.Host, "(not known)")) },
	"missing_statuses": func(s wire.Site) output.Cell {
		return output.Text(strings.ReplaceAll(strings.Trim(fmt.Sprint(append([]int{404, 410}, s.MissingStatuses...)), "[]"), " ", ", "))
	},
	"own_programs": func(s wire.Site) output.Cell { return output.Text(strings.Join(s.OwnPrograms, ", ")) },
	"own_paths":    func(s wire.Site) output.Cell { return output.Text(strings.Join(s.OwnPaths, ", ")) },
})
