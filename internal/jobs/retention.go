package jobs

import (
	"context"
	"fmt"
	"time"
)

const day = 24 * time.Hour

// idleProposals is how long an open proposal is kept after its range has become quiet. While a
// proposal is open, its range is not proposed again, and nobody is notified.
const idleProposals = 7 * day

// minKeepEnded is the minimum time that ended blocks, exemptions and tokens are kept. A node that
// cannot read the database for a while must find out that they have ended; package catalog reads
// everything again after half of this time.
const minKeepEnded = day

// PastDeleter deletes what ended before an instant.
type PastDeleter interface {
	DeleteRecordsBefore(ctx context.Context, before time.Time) (int64, error)
	DeleteEndedBefore(ctx context.Context, before time.Time) (int, error)
	DeleteTokensBefore(ctx context.Context, before time.Time) (int, error)
	DeleteRuns(ctx context.Context, before time.Time) (int, error)
	DeleteNotifications(ctx context.Context, before time.Time) (int, error)
	DeleteAttacks(ctx context.Context, before time.Time) (int, error)
	// DeleteDecidedProposals deletes the proposals that were decided before an instant.
	// DeleteIdleProposals deletes the open ones whose range has not offended since.
	DeleteDecidedProposals(ctx context.Context, before time.Time) (int, error)
	DeleteIdleProposals(ctx context.Context, before time.Time) (int, error)
}

// DeletePast returns the job that deletes what ended longer than keep ago.
func DeletePast(store PastDeleter, keep time.Duration, now func() time.Time) Job {
	return Job{
		Name: "delete-past-retention", Help: "Deletes changes, ended blocks and tokens, runs, notifications, past attacks and decided proposals older than the retention period, and open proposals of ranges that have been quiet for 7 days.",
		Schedule: "40 3 * * *", MakeUp: true,
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			at := now()
			entries, err := store.DeleteRecordsBefore(ctx, at.Add(-keep))
			if err != nil {
				return "", err
			}
			did := fmt.Sprintf("deleted %d changes", entries)
			for _, part := range []struct {
				what   string
				keep   time.Duration
				delete func(context.Context, time.Time) (int, error)
			}{
				{"ended blocks and exemptions", max(keep, minKeepEnded), store.DeleteEndedBefore}, {"tokens", max(keep, minKeepEnded), store.DeleteTokensBefore},
				{"runs", keep, store.DeleteRuns}, {"notifications", keep, store.DeleteNotifications}, {"attacks", keep, store.DeleteAttacks},
				{"decided proposals", keep, store.DeleteDecidedProposals}, {"open proposals of quiet ranges", idleProposals, store.DeleteIdleProposals},
			} {
				deleted, err := part.delete(ctx, at.Add(-part.keep))
				did += fmt.Sprintf(", %d %s", deleted, part.what)
				if err != nil {
					return did, err
				}
			}
			return did, nil
		},
	}
}
