// Package logtest is the contract suite that every timestamplog.Log passes,
// and the brute-force model of one that the suite compares it with.
package logtest

import (
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Harness is one Log under test and its clock.
type Harness struct {
	Log   timestamplog.Log
	Clock *Clock
	// ClockExpires reports whether logs expire by Clock too. If not, because a server
	// expires them by its own time, the suite resets expired logs, and the Log's own tests
	// check that they expire.
	ClockExpires bool
	// Algorithm and Options are those of the suite's policies; empty means the timestamp
	// log.
	Algorithm string
	Options   algorithms.Options
	// CrossSlot reports whether the logs of different keys may be in different slots of a
	// Cluster, which one call cannot combine.
	CrossSlot bool
	// Steps is the number of actions in each run of the property test; 0 means 200. Logs
	// behind a network use fewer.
	Steps int
}

// Start is where every Clock starts: 1 January 2100. It is ahead of the real
// time, so that a server that expires a log at an instant of Clock does not do so
// during the test.
var Start = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock is a clock that changes only when it is set or advanced. It is safe for
// concurrent use.
type Clock struct{ ms atomic.Int64 }

// NewClock returns a clock set to Start.
func NewClock() *Clock {
	c := new(Clock)
	c.Set(Start.UnixMilli())
	return c
}

// Now returns the clock's time, in whole milliseconds.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.ms.Load()) }

// NowMS returns the clock's time in Unix milliseconds.
func (c *Clock) NowMS() int64 { return c.ms.Load() }

// Set moves the clock to an instant in Unix milliseconds.
func (c *Clock) Set(ms int64) { c.ms.Store(ms) }

// Advance moves the clock by whole milliseconds; back where d is negative.
func (c *Clock) Advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }
