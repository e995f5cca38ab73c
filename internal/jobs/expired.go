package jobs

import (
	"context"
	"fmt"
	"time"
)

// ExpiredEnder marks what has expired at an instant as ended.
type ExpiredEnder interface {
	EndExpired(ctx context.Context, at time.Time) (ended int, err error)
}

// EndExpired returns the job that archives expired blocks and exemptions. They
// have had no effect since their expiry; the job keeps the table of active entries
// small.
func EndExpired(store ExpiredEnder, now func() time.Time) Job {
	return Job{
		Name: "end-expired-blocks", Help: "Archives blocks and exemptions that have expired.",
		Schedule: "*/5 * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			ended, err := store.EndExpired(ctx, now())
			return fmt.Sprintf("archived %d blocks and exemptions", ended), err
		},
	}
}
