package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newReport(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "report",
		Short:   "Show the daily and weekly reports",
		Example: "admin report list\nadmin report get 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --format html > report.html",
	}
	c.AddCommand(newReportList(a), newReportGet(a), newReportWrite(a))
	return c
}

func newReportList(a *app) *cobra.Command {
	var kind string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the stored reports, newest first",
		Example: "admin report list --kind weekly",
		Args:    cobra.NoArgs,
		RunE: a.online(func(c *cobra.Command, from *client.Client, _ []string) error {
			found, err := from.Reports(c.Context(), kind)
			if err != nil {
				return err
			}
			if p := a.printer(); p.Format == output.Table && len(found) == 0 {
				a.notef("None.")
				return nil
			}
			return output.List(a.printer(), found, reportColumns)
		}),
	}
	c.Flags().StringVar(&kind, "kind", "", "daily or weekly")
	return c
}

func newReportGet(a *app) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:     "get ID",
		Short:   "Print a report as JSON, CSV or one HTML page",
		Example: "admin report get 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --format html > report.html",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, from *client.Client, args []string) error {
			report, err := from.Report(c.Context(), args[0], format)
			if err != nil {
				return err
			}
			defer report.Close()
			_, err = io.Copy(a.sys.Stdout, report)
			return err
		}),
	}
	c.Flags().StringVar(&format, "format", "json", "json, csv or html")
	return c
}

func newReportWrite(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "write KIND",
		Short:   "Create the report of the last whole day or week now",
		Example: "admin report write daily",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, from *client.Client, args []string) error {
			written, err := from.WriteReport(c.Context(), args[0])
			if err != nil {
				return err
			}
			return output.One(a.printer(), *written, reportColumns)
		}),
	}
}

var reportColumns = []output.Column[wire.Report]{
	{Name: "kind", Head: "Kind", Cell: func(r wire.Report) output.Cell { return output.Text(r.Kind) }},
	{Name: "from", Head: "From", Cell: func(r wire.Report) output.Cell { return output.Time(r.From.Time) }},
	{Name: "to", Head: "To", Drop: 2, Cell: func(r wire.Report) output.Cell { return output.Time(r.To.Time) }},
	{Name: "allowed", Head: "Allowed", Right: true, Cell: func(r wire.Report) output.Cell { return output.Number(r.Allowed) }},
	{Name: "refused", Head: "Refused", Right: true, Cell: func(r wire.Report) output.Cell { return output.Number(r.Refused) }},
	{Name: "offenders", Head: "Offenders", Right: true, Cell: func(r wire.Report) output.Cell { return output.Number(r.Offenders) }},
	{Name: "attention", Head: "To look at", Right: true, Drop: 1, Cell: func(r wire.Report) output.Cell { return output.Number(len(r.Attention)) }},
	{Name: "id", Head: "Id", Cell: func(r wire.Report) output.Cell { return output.Text(r.ID) }},
}
