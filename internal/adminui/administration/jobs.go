package administration

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

const jobRuns = 50

type jobsPage struct {
	site.Frame
	Jobs []wire.Job
	Runs []wire.JobRun
	Of   string // the job whose runs are shown, "" for all
}

// MayRun reports whether the user may run a job.
func (p jobsPage) MayRun(name string) bool {
	return p.May(string(operations.AccessToRunJob(name)))
}

// jobsHandler lists and runs jobs.
type jobsHandler struct {
	*site.Site
	jobs *operations.Jobs
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &jobsHandler{Site: s, jobs: d.Jobs} }, "job")
}

func (h *jobsHandler) routes() []httpserver.Route {
	if !h.jobs.Available() {
		return nil
	}
	return []httpserver.Route{
		h.InMenu(site.Administration, 1, "Jobs", h.Get("/jobs", identity.Read, h.showJobs)),
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
	jobs, err := h.jobs.List(ctx, site.CallerOf(c), wire.None{})
	if err != nil {
		return err
	}
	runs, err := h.jobs.Runs(ctx, site.CallerOf(c), wire.RunList{Job: page.Of, PageList: wire.PageList{Limit: jobRuns}})
	if err != nil {
		return err
	}
	page.Jobs, page.Runs = jobs.Items, runs.Items
	if q.Get("done") != "" && len(page.Runs) > 0 && operations.WasRequested(page.Runs[0]) {
		last := page.Runs[0]
		page.Toast = &site.Toast{Text: "The job " + last.Job + " has run: " + last.Result + "."}
		switch {
		case last.Error != "":
			page.Toast.Text = "The job " + last.Job + " failed; its row shows the error."
		case last.IsUnfinished():
			page.Toast.Text = "The job " + last.Job + " is running. Load the page again later for its result."
		}
	}
	return h.Render(c, http.StatusOK, "jobs", page)
}

// runJob runs a job now. The list shows one that has not ended yet.
func (h *jobsHandler) runJob(c *httpserver.Call) error {
	name := c.Params("name")
	if _, err := h.jobs.Run(c.Context(), site.CallerOf(c), wire.ByName{Name: name}); err != nil {
		return err
	}
	return h.Redirect(c, "/jobs?done=run&job="+name)
}
