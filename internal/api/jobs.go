package api

import (
	"context"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/jobs"
)

// jobTimeout bounds a run that an operator asked for.
const jobTimeout = 15 * time.Minute

var errNoJobs = fault.New(fault.NotFound, "This node runs no jobs.")

func (s *API) listJobs(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	if s.Jobs == nil {
		return errNoJobs
	}
	ctx := c.Context()
	all, err := s.Jobs.List(ctx)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromJob))
}

func (s *API) listRuns(c *httpserver.Call) error {
	q := c.ParseQuery("job", "limit")
	job, limit := q.Line("job"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if s.Jobs == nil {
		return errNoJobs
	}
	if limit == 0 {
		limit = 100
	}
	ctx := c.Context()
	all, err := s.Jobs.Runs(ctx, job, limit)
	if err != nil {
		return err
	}
	page := wholePage(all, fromRun)
	page.Total = nil // there may be older ones
	return c.SendJSON(http.StatusOK, page)
}

// runJob runs a job now and answers once it has ended. A run that failed is an
// answer like another: it says why.
func (s *API) runJob(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	if s.Jobs == nil {
		return errNoJobs
	}
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	run, err := s.Jobs.RunNow(ctx, name)
	if err != nil {
		return err
	}
	// The job has a deadline of its own.
	if err := s.Recorder.AddRecord(c.Context(), jobs.AskedFor(c.Actor(), name)); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromRun(run))
}
