package api

import (
	"context"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/wire"
)

// jobHandler lists and runs the periodic work.
type jobHandler struct {
	jobs     *jobs.Runner // nil if the node runs no jobs
	recorder audit.Recorder
}

func (h *jobHandler) routes() []route {
	return []route{
		onAdmin(get, wire.PathJobs, identity.Read, h.listJobs, opListJobs),
		onAdmin(get, wire.PathJobs+"/runs", identity.Read, h.listRuns, opListRuns),
		onAdmin(post, wire.PathJobs+"/:name/run", identity.Operate, h.runJob, opRunJob),
	}
}

var (
	opListJobs = &openapi.Operation{ID: "listJobs", Tag: "jobs", Summary: "List the periodic work with its newest runs.", Answers: ok("All of it.", wire.Page[wire.Job]{})}
	opListRuns = &openapi.Operation{
		ID: "listRuns", Tag: "jobs", Summary: "List the newest runs.",
		Query: []openapi.Param{{Name: "job", Doc: "Only runs of this job."}, limitParam}, Answers: ok("The runs.", wire.Page[wire.JobRun]{}),
	}
	opRunJob = &openapi.Operation{ID: "runJob", Tag: "jobs", Summary: "Run a job now; the answer comes when it has ended.", Answers: ok("The run.", wire.JobRun{})}
)

// jobTimeout bounds a run that an operator asked for.
const jobTimeout = 15 * time.Minute

var errNoJobs = fault.New(fault.NotFound, "This node runs no jobs.")

func (h *jobHandler) listJobs(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	if h.jobs == nil {
		return errNoJobs
	}
	all, err := h.jobs.List(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, fromJob))
}

func (h *jobHandler) listRuns(c *httpserver.Call) error {
	q := c.ParseQuery("job", "limit")
	job, limit := q.Line("job"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if h.jobs == nil {
		return errNoJobs
	}
	if limit == 0 {
		limit = 100
	}
	all, err := h.jobs.Runs(c.Context(), job, limit)
	if err != nil {
		return err
	}
	page := singlePage(all, fromRun)
	page.Total = nil // there may be older ones
	return c.SendJSON(http.StatusOK, page)
}

// runJob runs a job now and answers once it has ended. A run that failed is an
// answer like another: it says why.
func (h *jobHandler) runJob(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	if h.jobs == nil {
		return errNoJobs
	}
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	run, err := h.jobs.RunNow(ctx, name)
	if err != nil {
		return err
	}
	// The job has a deadline of its own.
	if err := h.recorder.AddRecord(c.Context(), jobs.AskedFor(c.Actor(), name)); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromRun(run))
}

// fromJob returns a job as the API shows it.
func fromJob(s jobs.Status) wire.Job {
	out := wire.Job{Name: s.Name, Help: s.Help, Schedule: s.Schedule, NextAt: wire.At(s.Next)}
	if s.Last != nil {
		last := fromRun(s.Last)
		out.Last = &last
	}
	return out
}

// fromRun returns a run as the API shows it.
func fromRun(r *jobs.Run) wire.JobRun {
	return wire.JobRun{
		ID: r.ID, Job: r.Job, Node: r.Node, DueAt: wire.At(r.Due), StartedAt: wire.At(r.Started), FinishedAt: wire.At(r.Finished),
		Result: r.Did, Error: wire.NullString(r.Err), TriggeredBy: triggeredBy(r),
	}
}

// triggeredBy returns what started a run.
func triggeredBy(r *jobs.Run) string {
	if r.Asked {
		return wire.TriggeredByOperator
	}
	return wire.TriggeredBySchedule
}
