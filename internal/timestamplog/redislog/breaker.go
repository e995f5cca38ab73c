package redislog

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// ProbeInterval is how often a primary that is unreachable is tried again.
const ProbeInterval = 250 * time.Millisecond

// failureThreshold is how many failures of a primary in a row begin an outage.
// One is a caller whose deadline passed, or whose call failed as a whole.
const failureThreshold = 3

// breaker remembers that a primary is unreachable, so that during an outage no
// request waits for it. The zero value is closed. It is safe for use by many
// goroutines.
type breaker struct {
	troubled atomic.Bool  // there was a failure since the last success
	open     atomic.Bool  // there is an outage
	refused  atomic.Int64 // requests that failed since the last success

	mu       sync.Mutex
	failures int // in a row
	outage   timestamplog.Outage
}

// refuses reports whether there is an outage, in which that many more requests
// are left unanswered.
func (b *breaker) refuses(requests int) bool {
	if !b.open.Load() {
		return false
	}
	b.refused.Add(int64(requests))
	return true
}

// leave notes requests that were never sent, since calls before them went unanswered
// until their callers gave up. They are no failure by themselves.
func (b *breaker) leave(requests int) {
	b.refused.Add(int64(requests))
	b.troubled.Store(true) // or else the next success would leave them to a later outage
}

// failed notes a failure that left requests unanswered, and reports whether it
// begins an outage.
func (b *breaker) failed(server string, err error, requests int, now time.Time) (begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubled.Store(true)
	b.refused.Add(int64(requests))
	b.failures++
	if b.failures < failureThreshold || b.open.Load() {
		return false
	}
	b.outage = timestamplog.Outage{Server: server, Since: now, Reason: reasonOf(err)}
	b.open.Store(true)
	return true
}

// succeeded notes that the primary answered, which ends an outage. It returns
// the outage that it ended.
func (b *breaker) succeeded() (ended timestamplog.Outage, wasOpen bool) {
	if !b.troubled.Load() {
		return timestamplog.Outage{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ended, wasOpen = b.current(), b.open.Load()
	b.failures, b.outage = 0, timestamplog.Outage{}
	b.refused.Store(0)
	b.open.Store(false)
	b.troubled.Store(false)
	return ended, wasOpen
}

// explain keeps err as the reason of an outage: the first failures may have been
// connections that were cut, and what lasts is another thing.
func (b *breaker) explain(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() {
		b.outage.Reason = reasonOf(err)
	}
}

// state returns the outage that lasts.
func (b *breaker) state() (outage timestamplog.Outage, isOpen bool) {
	if !b.open.Load() {
		return timestamplog.Outage{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current(), b.open.Load()
}

func (b *breaker) current() timestamplog.Outage {
	outage := b.outage
	outage.Requests = b.refused.Load()
	return outage
}
