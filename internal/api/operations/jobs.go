package operations

import (
	"net/http"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// jobHandler lists and runs periodic jobs.
type jobHandler struct {
	jobs *use.Jobs
}

func (h *jobHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.OnAdmin(http.MethodGet, wire.PathJobs, identity.Read, h.listJobs, opListJobs),
		routes.OnAdmin(http.MethodGet, wire.PathJobs+"/runs", identity.Read, h.listRuns, opListRuns),
		routes.OnAdmin(http.MethodPost, wire.PathJobs+"/:name/run", identity.Operate, h.runJob, opRunJob),
	}
}

var (
	opListJobs = &openapi.Operation{ID: "listJobs", Tag: "jobs", Summary: "List the jobs with their newest runs.", Answers: routes.OK("The jobs.", wire.Page[wire.Job]{})}
	opListRuns = &openapi.Operation{
		ID: "listRuns", Tag: "jobs", Summary: "List the runs, the newest first.",
		Query: []openapi.Param{{Name: "job", Doc: "Only runs of this job."}, routes.Cursor, routes.Limit}, Answers: routes.OK("The runs.", wire.Page[wire.JobRun]{}),
	}
	opRunJob = &openapi.Operation{ID: "runJob", Tag: "jobs", Summary: "Run a job now; the answer comes when it has ended, or after 20 s. The job back-up needs the access admin.", Answers: []openapi.Answer{
		{Status: http.StatusOK, Doc: "The run, which has ended.", Body: wire.JobRun{}},
		{Status: http.StatusAccepted, Doc: "The run, which goes on; the list of the runs shows its end.", Body: wire.JobRun{}},
	}}
)

func (h *jobHandler) listJobs(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	all, err := h.jobs.List(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.SinglePage(all, fromJob))
}

func (h *jobHandler) listRuns(c *httpserver.Call) error {
	q := c.ParseQuery("job", "cursor", "limit")
	job, cursor, limit := q.Line("job"), q.Raw("cursor"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	page, next, err := h.jobs.Runs(c.Context(), job, cursor, limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.CursorPage(page, next, fromRun))
}

// runJob runs a job now. It answers when the run has ended, or with a run that is still in
// progress. A failed run is not an error.
func (h *jobHandler) runJob(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	run, err := h.jobs.Run(routes.CallerOf(c), name)
	switch {
	case err != nil:
		return err
	case run == nil: // the database has not responded yet
		return fault.New(fault.Unavailable, "The job has not begun yet; the list of its runs shows when it has.")
	case run.Finished.IsZero():
		return c.SendJSON(http.StatusAccepted, fromRun(run))
	}
	return c.SendJSON(http.StatusOK, fromRun(run))
}

// fromJob returns a job as the API shows it.
func fromJob(s use.Job) wire.Job {
	out := wire.Job{Name: s.Name, Help: s.Help, Schedule: s.Schedule, NextAt: wire.At(s.Next)}
	if s.Last != nil {
		last := fromRun(s.Last)
		out.Last = &last
	}
	return out
}

// fromRun returns a run as the API shows it.
func fromRun(r *use.JobRun) wire.JobRun {
	return wire.JobRun{
		ID: r.ID, Job: r.Job, Node: r.Node, DueAt: wire.At(r.Due), StartedAt: wire.At(r.Started), FinishedAt: wire.At(r.Finished),
		Result: r.Result, Error: wire.NullString(r.Err), TriggeredBy: string(r.TriggeredBy),
	}
}
