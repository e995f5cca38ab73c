package jobs

import (
	"context"
	"fmt"
	"time"
)

// RollUper rolls minutes into hours, and hours into days.
type RollUper interface {
	RollUp(ctx context.Context, now time.Time) (done int, err error)
}

// RollUp returns the job that adds up counts, so that reports over long spans are fast.
func RollUp(store RollUper, now func() time.Time) Job {
	return Job{
		Name: "roll-up", Help: "Summarizes the offences and traffic of finished hours and days.",
		Schedule: "2,17,32,47 * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			done, err := store.RollUp(ctx, now())
			if done == 0 {
				return "nothing to summarize", err
			}
			return fmt.Sprintf("summarized %d hours and days", done), err
		},
	}
}
