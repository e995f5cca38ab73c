package operations_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/test/storetest"
)

func TestBacklogIsWhatWaitsForTheEnabledChannels(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		at := f.Clock.Now().UTC().Truncate(time.Millisecond)
		add := func(at time.Time, channels ...string) {
			t.Helper()
			if err := f.Outbox.AddNotifications(t.Context(), []notify.Notification{{Kind: notify.Outage, At: at, Subject: "s"}}, channels); err != nil {
				t.Fatal(err)
			}
		}
		want := func(n int, oldest time.Time, channels ...string) {
			t.Helper()
			if got, since, err := f.Outbox.Backlog(t.Context(), channels); err != nil || got != n || !since.Equal(oldest) {
				t.Errorf("%q: %d wait since %v, %v; want %d since %v", channels, got, since, err, n, oldest)
			}
		}
		want(0, time.Time{}, "desk", "phone")
		add(at, "deleted")
		add(at.Add(time.Minute), "desk", "phone")
		add(at.Add(2*time.Minute), "desk")
		want(3, at.Add(time.Minute), "desk", "phone")
		due, err := f.Outbox.Due(t.Context(), "desk", at.Add(time.Hour))
		if err != nil || len(due) != 2 {
			t.Fatalf("%d are due, %v", len(due), err)
		}
		if err := f.Outbox.MarkSent(t.Context(), "desk", []int64{due[0].ID}, at); err != nil {
			t.Fatal(err)
		}
		want(1, at.Add(2*time.Minute), "desk")
		if err := f.Outbox.MarkFailed(t.Context(), "desk", []int64{due[1].ID}, at, "given up"); err != nil {
			t.Fatal(err)
		}
		want(0, time.Time{}, "desk")
	})
}
