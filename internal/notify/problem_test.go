package notify_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/notify"
)

func TestLongErrorIsTruncated(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		for _, fail := range []error{errors.New("451 " + strings.Repeat("x", 400_000)), notify.Permanent(errors.New("550 " + strings.Repeat("x", 400_000)))} {
			f.notify(notify.Outage, "Redis is unreachable")
			f.advance(notify.GroupWait)
			f.channel.fail = fail
			f.flush()
			f.advance(notify.LongestRetry)
		}
		all, err := f.store.Outbox.Deliveries(f.t.Context(), 10)
		if err != nil || len(all) != 2 {
			f.t.Fatalf("Deliveries: got %d, %v, want 2", len(all), err)
		}
		for _, one := range all {
			if len(one.Err) < 400 || len(one.Err) > 600 {
				f.t.Errorf("%d bytes of the error are stored, want about 500", len(one.Err))
			}
		}
	})
}
