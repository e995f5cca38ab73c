package jobs

import (
	"context"
	"time"
)

// PullBots returns the job that fetches the addresses that operators of bots publish. It asks their web
// sites, so that it does not run until a schedule is set.
func PullBots(pull func(context.Context) (string, error)) Job {
	return Job{
		Name: "pull-bots", Help: "Fetches the lists of addresses that operators of bots publish.",
		Schedule: off, PerNode: true,
		Run: func(ctx context.Context, _ time.Time) (string, error) { return pull(ctx) },
	}
}
