package redislog

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"
)

// Deadline of a call. A stalled primary executes the calls that have reached it when it
// continues, although their callers have given up. Their entries would leave their windows
// late and refuse other requests needlessly. So a call has a deadline by the primary's own
// clock. After it, the primary does nothing and returns its time, and requests whose callers
// still wait are sent again.
//
// The deadline is computed from the time in the primary's last reply plus what this
// process's monotonic clock has counted since. It is never later than the deadline of the
// callers, because the primary's clock was at least at that time when the reply came. It is
// early by at most the latency of that reply, and a reply to this call would be late by about
// as much, too. If the primary's clock was set or the two clocks drift, a call may be late
// needlessly; its reply then has the right time, and the call is repeated at once. If the
// primary's clock was set back, calls are executed late, as without a deadline, but no limit
// is exceeded.

// serverClock estimates how far a server's clock is ahead of this process's. The zero
// value has no estimate. It is safe for concurrent use.
type serverClock struct {
	ahead atomic.Int64 // milliseconds, a lower bound; 0 while it is not known
}

// processStart is the origin of the process's monotonic clock.
var processStart = time.Now()

// observe records the time of a reply that has just arrived, in Unix milliseconds.
func (c *serverClock) observe(now int64) {
	c.ahead.Store(now - int64(math.Ceil(float64(time.Since(processStart))/float64(time.Millisecond))))
}

// isKnown reports whether a time was observed.
func (c *serverClock) isKnown() bool { return c.ahead.Load() != 0 }

// argument returns the first argument of a call with a deadline. It is empty if the server's
// clock is not known, or for no deadline.
func (c *serverClock) argument(until time.Time) string {
	if !c.isKnown() || until.IsZero() {
		return ""
	}
	var text [24]byte
	return string(strconv.AppendInt(append(text[:0], '<'), c.ahead.Load()+until.Sub(processStart).Milliseconds(), 10))
}

// readClock reads p's time before its first call, so that every call has a deadline.
func (l *Log) readClock(ctx context.Context, p *primary) error {
	if p.clock.isKnown() || l.clock != nil {
		return nil
	}
	now, err := p.client.Time(ctx).Result()
	if err == nil {
		p.clock.observe(now.UnixMilli())
	}
	return err
}

// errLate is the error of a call that reached the primary after its deadline, and of its
// requests. The primary did nothing.
var errLate = errors.New("the call reached the primary after its callers had given up")

// maxLate bounds how often late requests are sent. Each reply has the primary's time, so twice
// is enough unless the primary stalls again.
const maxLate = 3
