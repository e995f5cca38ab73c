package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newReport(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "report",
		Short:   "Show the daily and weekly reports",
		Example: "admin report list\nadmin report get 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --format html > report.html",
	}
	c.AddCommand(newReportList(con), newReportGet(con), newReportWrite(con))
	return c
}

func newReportList(con *console.Console) *cobra.Command {
	var kind string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the stored reports, newest first",
		Example: "admin report list --kind weekly",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := server.Reports.List(c.Context(), kind)
			if err != nil {
				return err
			}
			return printItems(con, found, reportColumns)
		}),
	}
	c.Flags().StringVar(&kind, "kind", "", "daily or weekly")
	return c
}

func newReportGet(con *console.Console) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:     "get ID",
		Short:   "Print a report as JSON, CSV or one HTML page",
		Example: "admin report get 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --format html > report.html",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			report, err := server.Reports.Open(c.Context(), args[0], format)
			if err != nil {
				return err
			}
			defer report.Close()
			_, err = io.Copy(con.Stdout, report)
			return err
		}),
	}
	c.Flags().StringVar(&format, "format", "json", "json, csv or html")
	return c
}

func newReportWrite(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "write KIND",
		Short:   "Create the report of the last whole day or week now",
		Example: "admin report write daily",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			written, err := server.Reports.Create(c.Context(), args[0])
			if err != nil {
				return err
			}
			return output.One(con.Printer(), *written, reportColumns)
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
	{Name: "attention", Head: "Attention", Right: true, Drop: 1, Cell: func(r wire.Report) output.Cell { return output.Number(len(r.Attention)) }},
	{Name: "id", Head: "Id", Cell: func(r wire.Report) output.Cell { return output.Text(r.ID) }},
}
