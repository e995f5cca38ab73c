package operations_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/test/storetest"
)

func TestALeaseOfAClockThatWasAheadIsAbandoned(t *testing.T) {
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
			t.Error("a lease of a clock that was a year ahead keeps the job from running")
		}
		if take("job:a", "c", 0) {
			t.Error("a lease is taken from the node that took an abandoned one")
		}
		if !take("job:b", "a", jobs.MaxClockSkew) || take("job:b", "b", 0) {
			t.Error("a lease is taken from a node whose clock is within the skew")
		}
		// Notifications are sent under leases too.
		if !take("channel", "killed", time.Hour) {
			t.Error("not taken")
		}
		if held, err := f.Outbox.AcquireLease(t.Context(), "channel", "b", now, now.Add(length)); err != nil || !held {
			t.Errorf("a lease of a clock that was an hour ahead keeps a channel from sending: %v, %v", held, err)
		}
	})
}
