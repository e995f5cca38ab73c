package operations_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/test/storetest"
)

func TestLeaseFromFastClockIsTakenOver(t *testing.T) {
	const length = 2 * time.Minute
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		take := func(name, holder string, ahead time.Duration) bool {
			t.Helper()
			held, err := f.Jobs.AcquireLease(t.Context(), name, holder, now.Add(ahead), now.Add(ahead+length))
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		if !take("job:a", "killed", 365*24*time.Hour) || !take("job:a", "b", 0) {
			t.Error("a lease from a clock a year ahead was not taken over")
		}
		if take("job:a", "c", 0) {
			t.Error("the lease was taken from its current holder")
		}
		if !take("job:b", "a", jobs.MaxClockSkew) || take("job:b", "b", 0) {
			t.Error("a lease was taken from a node whose clock is within MaxClockSkew")
		}
		// Notifications are sent under leases too.
		if !take("channel", "killed", time.Hour) {
			t.Error("a free lease was not acquired")
		}
		if held, err := f.Outbox.AcquireLease(t.Context(), "channel", "b", now, now.Add(length)); err != nil || !held {
			t.Errorf("a channel's lease from a clock an hour ahead: got %v, %v, want it taken over", held, err)
		}
	})
}
