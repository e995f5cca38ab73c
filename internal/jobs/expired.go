package jobs

import (
	"context"
	"fmt"
	"time"
)

// ExpiredEnder archives entries that have expired at an instant.
type ExpiredEnder interface {
	EndExpired(ctx context.Context, at time.Time) (ended int, err error)
}

// archiveAfter is how long ago blocks and exemptions must have expired. It exceeds the maximum
// clock error of a node that runs jobs, which must not archive entries that are active on other
// nodes.
const archiveAfter = 2 * maxDatabaseSkew

// EndExpired returns the job that archives blocks and exemptions that expired at least
// archiveAfter ago. They have no effect any more; the job keeps the table of active entries
// small.
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
