package operations_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/sqlstore"
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

// Nodes whose clocks differ took leases from each other, and ran one job at once.
func TestLeasesAreBoundByTheClockOfTheDatabase(t *testing.T) {
	f := storetest.OpenPostgres(t)
	for _, apart := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		skewed := func() time.Time { return time.Now().Add(apart) }
		right, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer right.Close()
		wrong, err := sqlstore.Open(t.Context(), f.URL, sqlstore.Options{Now: skewed})
		if err != nil {
			t.Fatal(err)
		}
		defer wrong.Close()
		take := func(of *sqlstore.Store, name, holder string, now time.Time) bool {
			t.Helper()
			held, err := of.Jobs.AcquireLease(t.Context(), name, holder, now, now.Add(jobs.LeaseTime))
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		first, second := "first"+apart.String(), "second"+apart.String()
		if !take(right, first, "right", time.Now()) || take(wrong, first, "wrong", skewed()) || !take(right, first, "right", time.Now()) {
			t.Errorf("a node whose clock is %s ahead took the lease of another", apart)
		}
		if !take(wrong, second, "wrong", skewed()) || take(right, second, "right", time.Now()) || !take(wrong, second, "wrong", skewed()) {
			t.Errorf("the lease of a node whose clock is %s ahead was taken", apart)
		}
	}
}
