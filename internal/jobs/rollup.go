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

// RollUp returns the job that keeps reports over long spans quick.
func RollUp(store RollUper, now func() time.Time) Job {
	return Job{
		Name: "roll-up", Help: "Rolls the offences and traffic of finished hours and days up.",
		Schedule: "2,17,32,47 * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			done, err := store.RollUp(ctx, now())
			return fmt.Sprintf("rolled up %d hours and days", done), err
		},
	}
}
