package adminui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/jobs"
)

// heldRecorder records changes once it is let go.
type heldRecorder struct {
	audit.Recorder
	goOn <-chan struct{}
}

func (r heldRecorder) AddRecord(ctx context.Context, e audit.Record) error {
	<-r.goOn
	return r.Recorder.AddRecord(ctx, e)
}

// A run that takes longer than a page waits has no result yet.
func TestJobsPageSaysThatARunGoesOn(t *testing.T) {
	var used *operations.Jobs
	n := newNode(t, func(d *adminui.Deps) { used = d.Jobs })
	recorded, finish := make(chan struct{}), make(chan struct{})
	runner, err := jobs.New(jobs.Options{Store: n.store.Jobs, Node: "a", Now: n.clock.Now}, jobs.Job{
		Name: "slow", Help: "Takes long.", Schedule: "@hourly", Run: func(context.Context, time.Time) (string, error) {
			<-finish
			return "did it", nil
		},
	})
	must(t, err)
	used.Runner, used.Recorder, used.MaxWait = runner, heldRecorder{used.Recorder, recorded}, time.Millisecond
	olu := n.as(t, "olu")
	olu.post("/jobs/slow/run", nil).is(http.StatusServiceUnavailable).holds("The job has not begun yet")
	close(recorded)
	wait := func(text string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			page := olu.get("/jobs?done=run&job=slow").is(http.StatusOK)
			if strings.Contains(page.body, text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the page does not say %q: %s", text, page.shown())
			}
		}
	}
	wait("The job slow is running.")
	close(finish)
	wait("The job slow has run: did it.")
}
