package supervise

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends before, or has already ended, it returns the error of ctx. It
// returns at once if d is not positive.
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
