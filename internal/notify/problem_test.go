package notify_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/notify"
)

func TestLongErrorIsTruncated(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		all := deliveriesAfter(f, "Redis is unreachable", errors.New("451 "+strings.Repeat("x", 400_000)), notify.Permanent(errors.New("550 "+strings.Repeat("x", 400_000))))
		for _, one := range all {
			if len(one.Err) < 400 || len(one.Err) > 600 {
				f.t.Errorf("%d bytes of the error are stored, want about 500", len(one.Err))
			}
		}
	})
}

// TestErrorThatIsNoUTF8IsStored is about servers that answer in Latin-1, or with a NUL.
func TestErrorThatIsNoUTF8IsStored(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		all := deliveriesAfter(f, "Redis is unreachable: \xe9\x00", errors.New("451 r\xe9essayez \x00"), notify.Permanent(errors.New("550 refus\xe9")))
		for _, one := range all {
			want := "550 refus\uFFFD"
			if one.Failed.IsZero() || one.Err != want {
				f.t.Errorf("the delivery failed at %s with %q, want %q", one.Failed, one.Err, want)
			}
			if one.Subject != "Redis is unreachable: \uFFFD\uFFFD" || one.Facts["key"] != "Redis is unreachable: \uFFFD\x00" {
				f.t.Errorf("got the subject %q and the facts %q", one.Subject, one.Facts)
			}
		}
	})
}

// deliveriesAfter returns the deliveries after a notification for each failure.
func deliveriesAfter(f *fixture, subject string, failures ...error) []notify.Delivery {
	f.t.Helper()
	for _, failure := range failures {
		f.notify(notify.Outage, subject)
		f.advance(notify.GroupWait)
		f.channel.fail = failure
		f.flush()
		f.advance(notify.LongestRetry)
	}
	all, err := f.store.Outbox.Deliveries(f.t.Context(), 10)
	if err != nil || len(all) != len(failures) {
		f.t.Fatalf("Deliveries: got %d, %v, want %d", len(all), err, len(failures))
	}
	return all
}
