package supervise

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends, and then returns the error of ctx. It returns at
// once if ctx has ended already or if d is not positive.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
