package adminui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/supervise"
)

const jobRuns = 50

type jobsPage struct {
	Frame
	Jobs []jobs.Status
	Runs []*jobs.Run
	Of   string // the job whose runs are shown, "" for all
}

func (u *UI) jobRoutes() []api.Route {
	if u.Jobs == nil {
		return nil
	}
	return []api.Route{
		u.get("/jobs", identity.Read, u.showJobs),
		u.post("/jobs/:name/run", identity.Operate, u.runJob),
	}
}

func (u *UI) showJobs(c *api.Call) error {
	q, err := readQuery(c, "job", "done")
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	page := jobsPage{Frame: u.frame(c, "Jobs", "/jobs"), Of: q.Get("job")}
	if page.Jobs, err = u.Jobs.List(ctx); err != nil {
		return err
	}
	if page.Runs, err = u.Jobs.Runs(ctx, page.Of, jobRuns); err != nil {
		return err
	}
	if q.Get("done") != "" && len(page.Runs) > 0 && page.Runs[0].Asked {
		last := page.Runs[0]
		page.Toast = &Toast{Text: "The job " + last.Job + " has run: " + last.Did + "."}
		if last.Err != "" {
			page.Toast.Text = "The job " + last.Job + " has failed; its line says why."
		}
	}
	return u.render(c, http.StatusOK, "jobs", page)
}

// maxJobTime bounds how long a page waits for a job; the job goes on.
const maxJobTime = 20 * time.Second

// runJob runs a job now. What takes longer than a page may wait goes on by
// itself and is seen in the list.
func (u *UI) runJob(c *api.Call) error {
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	by := c.Actor() // the call is another's once it has been answered
	ended := make(chan error, 1)
	go func() {
		err := supervise.Call("job asked for", func() error { return u.runAndRecord(by, name) })
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
	return u.seeOther(c, "/jobs?done=run&job="+name)
}

func (u *UI) runAndRecord(by audit.Actor, name string) error {
	if _, err := u.Jobs.RunNow(context.Background(), name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return u.Recorder.RecordEntry(ctx, jobs.AskedFor(by, name))
}
