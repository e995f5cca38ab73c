package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newReport) }

func newReport(con *console.Console) *cobra.Command {
	var report wire.OutcomeReport
	var values []string
	c := &cobra.Command{
		Use:   "report KEY [OUTCOME]",
		Short: "Report the outcome of a request, or show the daily and weekly reports",
		Long: `With a key and an outcome, report the outcome of a request of the key, as an application
does after a failed login: the policies with that outcome count it, whether or not the
request was checked. The answer says which did, and whether they refuse the key from now on.
With --status in place of the outcome, the server finds the outcomes by the answer's status.
The subcommands show the daily and weekly reports.`,
		Example: "admin report ip:203.0.113.7 login_failed --path /login --value account=alice\nadmin report list\n" +
			"admin report show 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --format html > report.html",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 2, len(args) == 1 && report.Status != 0:
			case len(args) > 0 && strings.Contains(args[0], ":"): // a key
				return wrongArguments(c, len(args))
			default:
				return runGroup(c, args)
			}
			if report.Key = args[0]; len(args) > 1 {
				report.Outcome = args[1]
			}
			var err error
			if report.Values, err = namedValues(values); err != nil {
				return err
			}
			return checkOnline(con, func(c *cobra.Command, server *client.Client, _ []string) error {
				answer, err := server.Checks.Report(c.Context(), report)
				if err != nil {
					return err
				}
				return printReported(con.Printer(), answer)
			})(c, args)
		},
	}
	c.Flags().StringVar(&report.ID, "id", "", "a name for the report: a repeat within a minute is charged once")
	c.Flags().IntVar(&report.Status, "status", 0, "the status of the site's answer, in place of an outcome")
	c.Flags().StringArrayVar(&values, "value", nil, "a further value of the request, for distinct rules: account=alice")
	addRequestFlags(c, &report.Request)
	c.AddCommand(newReportList(con), newReportGet(con), newReportWrite(con))
	return c
}

// namedValues parses NAME=VALUE pairs. A value may contain commas and "=", as LDAP names do.
func namedValues(pairs []string) (map[string]string, error) {
	var values map[string]string
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, console.Usagef("--value %q must be NAME=VALUE", pair)
		}
		if values == nil {
			values = make(map[string]string, len(pairs))
		}
		values[name] = value
	}
	return values, nil
}

func newReportList(con *console.Console) *cobra.Command {
	var kind string
	c := pagedCommand(con, cobra.Command{
		Short:   "List the stored reports, newest first",
		Example: "admin report list --kind weekly",
	}, wire.ListReports, reportColumns, func() wire.ReportList { return wire.ReportList{Kind: kind} })
	c.Flags().StringVar(&kind, "kind", "", "daily or weekly")
	return c
}

func newReportGet(con *console.Console) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:     "show ID",
		Short:   "Print a report as JSON, CSV or one HTML page",
		Long:    "Print a report as JSON, YAML, CSV or one HTML page: by -o or --format.\nThe id today is the report of today so far, from midnight UTC.",
		Example: "admin report show today --format csv\nadmin report show 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933 --format html > report.html",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if c.Flags().Changed("format") && con.Format != string(output.Table) {
				return console.Usagef("give --format or --output, not both")
			}
			if con.Format == string(output.CSV) {
				format = "csv"
			}
			report, err := client.Open(c.Context(), server, wire.GetReport, wire.ReportByID{ID: args[0], Format: format})
			if err != nil {
				return err
			}
			defer report.Close()
			if con.Format != string(output.YAML) {
				_, err = io.Copy(con.Printer().Document(), report)
				return err
			}
			text, err := io.ReadAll(report)
			if err != nil {
				return err
			}
			return con.Printer().WriteJSON(text)
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
			return printOne(con, reportColumns)(client.Call(c.Context(), server, wire.WriteReport, wire.ReportRequest{Kind: args[0]}))
		}),
	}
}

var reportColumns = output.Columns(`kind: Kind, from: From, to: To (drop 2), allowed: Allowed, refused: Refused, offenders: Offenders,
	attention: Attention (right drop 1), id: Id`, output.Cells[wire.Report]{
	"attention": func(r wire.Report) output.Cell { return output.Number(len(r.Attention)) },
})

var reportedColumns = output.Columns[wire.ReportedPolicy](`policy: Policy, mode: Mode, result: Result, refuses: Refuses now, retry_at: Until,
	id: Refusal id (drop 1), derived_key: For the further key (cut)`)

func printReported(p *output.Printer, r *wire.ReportedOutcome) error {
	if p.Format == output.JSON {
		return p.JSON(r)
	}
	if p.Format == output.Table {
		if len(r.Outcomes) > 0 {
			p.Sayf("The answer means %s.", output.Escape(strings.Join(r.Outcomes, " and ")))
		}
		if r.Note != "" {
			p.Sayf("%s", output.Escape(r.Note))
			return nil
		}
		if r.Degraded {
			p.Sayf("Degraded: %s", output.Escape(r.DegradedReason))
		}
	}
	return output.List(p, r.Policies, reportedColumns)
}
