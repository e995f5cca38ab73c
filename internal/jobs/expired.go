package jobs

import (
	"context"
	"fmt"
	"time"
)

// ExpiredEnder archives what has expired at an instant.
type ExpiredEnder interface {
	EndExpired(ctx context.Context, at time.Time) (ended int, err error)
}

// archiveAfter is how long blocks and exemptions must have expired. A node whose clock is
// ahead by as much as jobs run with must not archive what is active on the others.
const archiveAfter = 2 * maxDatabaseSkew

// EndExpired returns the job that archives blocks and exemptions that expired long enough
// ago. They have had no effect since; the job keeps the table of active entries small.
func EndExpired(store ExpiredEnder, now func() time.Time) Job {
	return Job{
		Name: "end-expired-blocks", Help: "Archives blocks and exemptions that expired two hours ago or earlier.",
		Schedule: "*/5 * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			ended, err := store.EndExpired(ctx, now().Add(-archiveAfter))
			return fmt.Sprintf("archived %d blocks and exemptions", ended), err
		},
	}
}
