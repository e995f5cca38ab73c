package jobs

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

// RunDue runs a job at a due time as its schedule does. It returns nil if the job must not run.
func (r *Runner) RunDue(ctx context.Context, name string, due time.Time) (*wire.JobRun, error) {
	return r.run(ctx, r.named(name).Job, due, nil)
}

// Missed returns the due time to make up for, zero if there is none.
func (r *Runner) Missed(ctx context.Context, name string) time.Time {
	return r.missed(ctx, r.named(name))
}

// Await waits as a schedule does for its next due time.
func (r *Runner) Await(ctx context.Context, name string) time.Time {
	j := r.named(name)
	return r.await(ctx, j, j.schedule.Next(r.wallClock()))
}

func (r *Runner) named(name string) scheduled {
	for _, j := range r.jobs {
		if j.Name == name {
			return j
		}
	}
	panic("there is no job " + name)
}
