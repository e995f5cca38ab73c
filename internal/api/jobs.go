package api

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/jobs"
)

// jobTimeout bounds a run that an operator asked for.
const jobTimeout = 15 * time.Minute

var errNoJobs = fault.New(fault.NotFound, "This node runs no jobs.")

func (s *Server) listJobs(c *Call) error {
	if err := c.query().err; err != nil {
		return err
	}
	if s.Jobs == nil {
		return errNoJobs
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := s.Jobs.List(ctx)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(all, v1.FromJob))
}

func (s *Server) listRuns(c *Call) error {
	q := c.query("job", "limit")
	job, limit := q.line("job"), q.limit()
	if q.err != nil {
		return q.err
	}
	if s.Jobs == nil {
		return errNoJobs
	}
	if limit == 0 {
		limit = 100
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := s.Jobs.Runs(ctx, job, limit)
	if err != nil {
		return err
	}
	page := wholePage(all, v1.FromRun)
	page.Total = nil // there may be older ones
	return sendJSON(c, http.StatusOK, page)
}

// runJob runs a job now and answers once it has ended. A run that failed is an
// answer like another: it says why.
func (s *Server) runJob(c *Call) error {
	name, err := c.param("name")
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
	// The job may have used up its own time.
	store, release := c.StoreContext()
	defer release()
	if err := s.Recorder.RecordEntry(store, jobs.AskedFor(c.Actor(), name)); err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, v1.FromRun(run))
}
