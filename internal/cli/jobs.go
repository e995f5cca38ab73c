package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newJob) }

func newJob(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "job",
		Short:   "Show the periodic jobs, or run one now",
		Example: "admin job list\nadmin job run roll-up",
	}
	c.AddCommand(listCommand(con, cobra.Command{
		Short:   "List the jobs, the next run and the last result of each",
		Example: "admin job list",
	}, wire.ListJobs, jobColumns, noFilter), newJobRuns(con), newJobRun(con))
	return c
}

func newJobRuns(con *console.Console) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "runs [JOB]",
		Short:   "List the newest runs of one job or all",
		Example: "admin job runs\nadmin job runs roll-up --limit 5",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			job := ""
			if len(args) > 0 {
				job = args[0]
			}
			runs, err := client.Pages(c.Context(), server, wire.ListRuns, wire.RunList{Job: job}, limit)
			if err != nil {
				return err
			}
			if job != "" && len(runs.Items) == 0 {
				if err := findJob(c.Context(), server, job); err != nil {
					return err
				}
			}
			return printListing(con, runColumns)(runs, nil)
		}),
	}
	c.Flags().IntVar(&limit, "limit", 20, "maximum number of runs to show, 0 for all")
	return c
}

// findJob returns an error if the server has no job of a name.
func findJob(ctx context.Context, server *client.Client, name string) error {
	all, err := client.Items(ctx, server, wire.ListJobs, wire.None{})
	if err != nil || slices.ContainsFunc(all, func(j wire.Job) bool { return j.Name == name }) {
		return err
	}
	return console.NotFoundf("there is no job %q; see 'job list'", name)
}

func newJobRun(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "run JOB",
		Short:   "Run a job now and print its result",
		Example: "admin job run roll-up",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			run, err := client.RunJob(c.Context(), server, args[0])
			if err != nil {
				return err
			}
			if err := output.One(con.Printer(), run, runColumns); err != nil {
				return err
			}
			if run.Error != "" {
				return fmt.Errorf("the job %s failed: %s", run.Job, run.Error)
			}
			return nil
		}),
	}
}

var jobColumns = output.Columns(`name: Job, schedule: Schedule (drop 2), next_at: Next (or not scheduled), last_at: Last,
	last_did: Result (cut), help: What it does (cut drop 1)`, output.Cells[wire.Job]{
	"last_at": func(j wire.Job) output.Cell {
		if j.Last == nil {
			return output.Words("never", "")
		}
		return output.Time(j.Last.StartedAt.Time)
	},
	"last_did": lastResult,
})

// lastResult is the result of a job's last run, or its error.
func lastResult(j wire.Job) output.Cell {
	switch {
	case j.Last == nil:
		return output.Cell{}
	case j.Last.Error != "":
		return output.Text("failed: " + string(j.Last.Error))
	case j.Last.FinishedAt.IsZero():
		return output.Text("has not ended")
	default:
		return output.Text(j.Last.Result)
	}
}

var runColumns = output.Columns(`job: Job, started_at: Started, took_ms: Took (right), result: Result (cut), error: Error (cut),
	triggered_by: Triggered by (drop 1), node: Node (drop 2)`, output.Cells[wire.JobRun]{
	"took_ms": func(r wire.JobRun) output.Cell {
		if r.FinishedAt.IsZero() {
			return output.Cell{}
		}
		return output.Milliseconds(r.FinishedAt.Sub(r.StartedAt.Time).Milliseconds())
	},
})
