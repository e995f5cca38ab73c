package notify_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
)

// TestClockThatWasAheadDelaysNoMessages has the clock a day ahead while one message is sent, by
// a node that is then killed with its lease.
func TestClockThatWasAheadDelaysNoMessages(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		const day = 24 * time.Hour
		f.advance(day)
		f.notify(notify.Outage, "Redis is unreachable")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 1 {
			f.t.Fatalf("%d messages", len(f.channel.sent))
		}
		f.notify(notify.AutomaticBlock, "Blocked while the clock was ahead")
		f.advance(-day)
		f.Dispatcher = f.dispatcher("b")
		f.notify(notify.Outage, "Postgres is unreachable")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 3 {
			f.t.Errorf("%d messages after the clock was set", len(f.channel.sent))
		}
		f.notify(notify.AutomaticBlock, "Blocked just after")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 3 {
			f.t.Error("no interval is kept while a message lies ahead")
		}
	})
}

// TestMessageSentDuringShutdownIsNotSentAgain stops it as the receiver answers.
func TestMessageSentDuringShutdownIsNotSentAgain(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		ctx, stop := context.WithCancel(f.t.Context())
		f.channel.during = stop
		f.notify(notify.Proposal, "Block 203.0.113.0/24?")
		f.advance(notify.GroupWait)
		_ = f.Flush(ctx, f.channel) // whatever it says: the node is going down
		f.Dispatcher = f.dispatcher("a")
		f.advance(notify.GroupInterval)
		f.flush()
		if len(f.channel.sent) != 1 {
			f.t.Errorf("sent %d times", len(f.channel.sent))
		}
	})
}
