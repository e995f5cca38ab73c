package jobs

import (
	"context"
	"fmt"
	"time"
)

const day = 24 * time.Hour

// Retention says how long what is over is kept. Zero fields mean the default.
type Retention struct {
	Audit         time.Duration // of changes; 0: 2 years
	Blocks        time.Duration // ended blocks and exemptions; 0: 1 year
	Tokens        time.Duration // expired or revoked ones; 0: 90 days
	Runs          time.Duration // of jobs; 0: 90 days
	Notifications time.Duration // sent or not; 0: 90 days
}

// WithDefaults fills in what is zero.
func (r Retention) WithDefaults() Retention {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&r.Audit, 2 * 365 * day}, {&r.Blocks, 365 * day}, {&r.Tokens, 90 * day}, {&r.Runs, 90 * day}, {&r.Notifications, 90 * day}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	return r
}

// PastDeleter forgets what was over before an instant.
type PastDeleter interface {
	DeleteRecordsBefore(ctx context.Context, before time.Time) (int64, error)
	DeleteEndedBefore(ctx context.Context, before time.Time) (int, error)
	DeleteTokensBefore(ctx context.Context, before time.Time) (int, error)
	DeleteRuns(ctx context.Context, before time.Time) (int, error)
	DeleteNotifications(ctx context.Context, before time.Time) (int, error)
}

// DeletePast returns the job that forgets what is past its retention.
func DeletePast(store PastDeleter, keep Retention, now func() time.Time) Job {
	keep = keep.WithDefaults()
	return Job{
		Name: "delete-past-retention", Help: "Deletes changes, ended blocks and tokens, runs and notifications older than the retention period.",
		Schedule: "40 3 * * *", MakeUp: true,
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			at := now()
			entries, err := store.DeleteRecordsBefore(ctx, at.Add(-keep.Audit))
			if err != nil {
				return "", err
			}
			did := fmt.Sprintf("deleted %d changes", entries)
			for _, part := range []struct {
				what   string
				keep   time.Duration
				delete func(context.Context, time.Time) (int, error)
			}{
				{"ended blocks and exemptions", keep.Blocks, store.DeleteEndedBefore}, {"tokens", keep.Tokens, store.DeleteTokensBefore},
				{"runs", keep.Runs, store.DeleteRuns}, {"notifications", keep.Notifications, store.DeleteNotifications},
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
