package jobs

import (
	"context"
	"time"
)

// PullSources returns the job that pulls the lists that are due.
func PullSources(pull func(context.Context) (string, error)) Job {
	return Job{
		Name: "pull-sources", Help: "Pulls the lists of blocks and exemptions that are due.",
		Schedule: "*/5 * * * *",
		Run:      func(ctx context.Context, _ time.Time) (string, error) { return pull(ctx) },
	}
}
