package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// CountsDeleter deletes counts after their retention.
type CountsDeleter interface {
	// DeleteOlder also deletes the states of keys whose levels have decayed; see
	// offences.DecaysOf.
	DeleteOlder(ctx context.Context, now time.Time, keep offences.Retention, decays map[int64]time.Duration) (deleted int64, err error)
}

// DeleteCounts returns the job that deletes old offences, traffic and traffic samples, and
// the levels of keys that have decayed under the current policies.
func DeleteCounts(store CountsDeleter, keep offences.Retention, decays func() map[int64]time.Duration, now func() time.Time) Job {
	return Job{
		Name: "delete-counts", Help: "Deletes offences, traffic and traffic samples older than the retention period, and decayed levels of escalations.",
		Schedule: "22 * * * *", MakeUp: true,
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			deleted, err := store.DeleteOlder(ctx, now(), keep, decays())
			return fmt.Sprintf("deleted %d rows", deleted), err
		},
	}
}
