package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// CountsDeleter forgets counts past their retention.
type CountsDeleter interface {
	DeleteOlder(ctx context.Context, now time.Time, keep offences.Retention) (deleted int64, err error)
}

// DeleteCounts returns the job that deletes old offences, traffic and traffic samples.
func DeleteCounts(store CountsDeleter, keep offences.Retention, now func() time.Time) Job {
	return Job{
		Name: "delete-counts", Help: "Deletes offences, traffic and traffic samples older than the retention period.",
		Schedule: "22 * * * *", MakeUp: true,
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			deleted, err := store.DeleteOlder(ctx, now(), keep)
			return fmt.Sprintf("deleted %d rows", deleted), err
		},
	}
}
