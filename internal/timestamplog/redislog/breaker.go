package redislog

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// ProbeInterval is how often a primary that is unreachable is tried again.
const ProbeInterval = 250 * time.Millisecond

// failureThreshold is how many consecutive failures of a primary begin an outage. A failure is
// a caller whose deadline passed, or a call that failed as a whole.
const failureThreshold = 3

// breaker is a circuit breaker for one primary, so that no request waits for it during an
// outage. The zero value is closed. It is safe for concurrent use.
type breaker struct {
	troubled atomic.Bool  // whether there was a failure since the last success
	open     atomic.Bool  // whether there is an outage
	refused  atomic.Int64 // requests that failed since the last success

	mu       sync.Mutex
	failures int // consecutive
	outage   timestamplog.Outage
}

// refuses reports whether there is an outage. It then counts requests as unanswered.
func (b *breaker) refuses(requests int) bool {
	if !b.open.Load() {
		return false
	}
	b.refused.Add(int64(requests))
	return true
}

// leave counts requests that were never sent because the calls before them got no answer until
// the callers gave up. They are not failures by themselves.
func (b *breaker) leave(requests int) {
	b.refused.Add(int64(requests))
	b.troubled.Store(true) // otherwise the next success would not reset refused
}

// failed records a failure that left requests unanswered, and reports whether it begins an
// outage.
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

// succeeded records that the primary answered, which ends an outage. It returns that outage.
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

// explain replaces the reason of an outage by err. The first failures may have been cut
// connections, while the lasting cause is another.
func (b *breaker) explain(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() {
		b.outage.Reason = reasonOf(err)
	}
}

// state returns the present outage, if there is one.
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
