package notify_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
)

// TestClockThatWasAheadDelaysNoMessages sets the clock a day ahead while one message is sent, by
// a node that is then killed while it has the lease.
func TestClockThatWasAheadDelaysNoMessages(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		const day = 24 * time.Hour
		f.advance(day)
		f.notify(notify.Outage, "Redis is unreachable")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 1 {
			f.t.Fatalf("got %d messages, want 1", len(f.channel.sent))
		}
		f.notify(notify.AutomaticBlock, "Blocked while the clock was ahead")
		f.advance(-day)
		f.Dispatcher = f.dispatcher("b")
		f.notify(notify.Outage, "Postgres is unreachable")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 3 {
			f.t.Errorf("got %d messages after the clock was set back, want 3", len(f.channel.sent))
		}
		f.notify(notify.AutomaticBlock, "Blocked just after")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 3 {
			f.t.Error("the interval between messages was not kept after the clock was set back")
		}
	})
}

// TestMessageSentDuringShutdownIsNotSentAgain stops the node while the receiver answers.
func TestMessageSentDuringShutdownIsNotSentAgain(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		ctx, stop := context.WithCancel(f.t.Context())
		f.channel.during = stop
		f.notify(notify.Proposal, "Block 203.0.113.0/24?")
		f.advance(notify.GroupWait)
		_ = f.Flush(ctx, f.channel) // the error does not matter: the node stops
		f.Dispatcher = f.dispatcher("a")
		f.advance(notify.GroupInterval)
		f.flush()
		if len(f.channel.sent) != 1 {
			f.t.Errorf("the message was sent %d times, want 1", len(f.channel.sent))
		}
	})
}
