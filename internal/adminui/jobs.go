package adminui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/supervise"
)

const jobRuns = 50

type jobsPage struct {
	site.Frame
	Jobs []jobs.Status
	Runs []*jobs.Run
	Of   string // the job whose runs are shown, "" for all
}

// jobsHandler lists and runs jobs.
type jobsHandler struct {
	*site.Site
	jobs     *jobs.Runner // nil where there are none
	recorder audit.Recorder
}

func (h *jobsHandler) routes() []httpserver.Route {
	if h.jobs == nil {
		return nil
	}
	return []httpserver.Route{
		h.Get("/jobs", identity.Read, h.showJobs),
		h.Post("/jobs/:name/run", identity.Operate, h.runJob),
	}
}

func (h *jobsHandler) showJobs(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "job", "done")
	if err != nil {
		return err
	}
	ctx := c.Context()
	page := jobsPage{Frame: h.NewFrame(c, "Jobs", "/jobs"), Of: q.Get("job")}
	if page.Jobs, err = h.jobs.List(ctx); err != nil {
		return err
	}
	if page.Runs, err = h.jobs.Runs(ctx, page.Of, jobRuns); err != nil {
		return err
	}
	if q.Get("done") != "" && len(page.Runs) > 0 && page.Runs[0].Asked {
		last := page.Runs[0]
		page.Toast = &site.Toast{Text: "The job " + last.Job + " has run: " + last.Did + "."}
		if last.Err != "" {
			page.Toast.Text = "The job " + last.Job + " failed; its row shows the error."
		}
	}
	return h.Render(c, http.StatusOK, "jobs", page)
}

// maxJobTime bounds how long a page waits for a job; the job goes on.
const maxJobTime = 20 * time.Second

// runJob runs a job now. What takes longer than a page may wait goes on by
// itself and is seen in the list.
func (h *jobsHandler) runJob(c *httpserver.Call) error {
	name, err := site.PathParam(c, "name")
	if err != nil {
		return err
	}
	by := c.Actor() // the call is another's once it has been answered
	ended := make(chan error, 1)
	go func() {
		err := supervise.Call("job asked for", func() error { return h.runAndRecord(by, name) })
		if _, panicked := errors.AsType[*supervise.Panic](err); panicked {
			err = fault.New(fault.Unavailable, "The job could not be run.")
		}
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-time.After(maxJobTime):
	}
	if err != nil {
		return err
	}
	return h.Redirect(c, "/jobs?done=run&job="+name)
}

func (h *jobsHandler) runAndRecord(by audit.Actor, name string) error {
	if _, err := h.jobs.RunNow(context.Background(), name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return h.recorder.AddRecord(ctx, jobs.AskedFor(by, name))
}
