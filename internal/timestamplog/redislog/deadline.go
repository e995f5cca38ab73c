package redislog

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"
)

// A call that reaches a stalled primary is carried out when that goes on, though
// its callers have given up: its entries would then leave their windows late and
// refuse others needlessly. So a call says until when, by the primary's own
// clock, it may be carried out; the primary answers a later one with its time
// and does nothing, and what still has a caller is asked again.
//
// The instant follows from the time in the primary's last answer: when that came,
// the primary's clock showed at least as much, and since then this node's steady
// clock tells how much more. It is thus never later than the deadline of the
// callers. It is too early by no more than the way of that answer took, by which
// an answer to the call would come too late as well, unless the primary's clock
// was set or the two drift; then the answer brings the right time, and the call
// is repeated at once. A clock that was set back has calls carried out late, as
// if they had not said anything; no limit is ever passed.

// serverClock knows how far a server's clock is ahead of this process's. The zero
// value knows nothing. It is safe for use by many goroutines.
type serverClock struct {
	ahead atomic.Int64 // milliseconds, at least; 0 while it is not known
}

// processStart is where the process's own clock begins, which is steady.
var processStart = time.Now()

// heard notes the time that an answer tells, in Unix milliseconds, that came now.
func (c *serverClock) heard(told int64) {
	c.ahead.Store(told - int64(math.Ceil(float64(time.Since(processStart))/float64(time.Millisecond))))
}

// isKnown reports whether anything was heard.
func (c *serverClock) isKnown() bool { return c.ahead.Load() != 0 }

// argument returns the first argument of a call that may be carried out until an
// instant: empty where the server's clock is not known.
func (c *serverClock) argument(until time.Time) string {
	if !c.isKnown() || until.IsZero() {
		return ""
	}
	var text [24]byte
	return string(strconv.AppendInt(append(text[:0], '<'), c.ahead.Load()+until.Sub(processStart).Milliseconds(), 10))
}

// meet asks p for its time before it is first called, so that every call says
// until when it may be carried out.
func (l *Log) meet(ctx context.Context, p *primary) error {
	if p.clock.isKnown() || l.clock != nil {
		return nil
	}
	told, err := p.client.Time(ctx).Result()
	if err == nil {
		p.clock.heard(told.UnixMilli())
	}
	return err
}

// errLate is the error of a call that came too late, and of its requests. Nothing
// was done for them.
var errLate = errors.New("the call reached the primary after its callers had given up")

// maxLate is how often requests are sent whose call came too late. Since each
// answer tells the time, twice is enough but for a primary that stalls again.
const maxLate = 3
