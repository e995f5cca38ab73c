// Package logtest is the contract suite that every timestamplog.Log passes,
// and the brute-force model of one that the suite compares it with.
package logtest

import (
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Harness is one Log under test and the clock that it goes by.
type Harness struct {
	Log   timestamplog.Log
	Clock *Clock
	// ClockExpires says that expiry goes by Clock too. Where it is false, as
	// with a server that expires by its own time, the suite resets logs whose
	// time has come and leaves it to the Log's own tests that they expire.
	ClockExpires bool
	// Algorithm names what the suite has policies count by, and Options what it
	// is told; empty means the timestamp log.
	Algorithm string
	Options   algorithms.Options
	// CrossSlot says that the logs of different keys may lie where no one call
	// reaches them together, as in a Cluster.
	CrossSlot bool
	// Steps is how many actions each run of the property test takes, 200
	// where it is 0. Logs behind a network take fewer.
	Steps int
}

// Start is where every Clock starts: 1 January 2100. It lies ahead of the real
// time, so that a server that is told to expire a log at an instant of Clock
// does not do so before the test is over.
var Start = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock is a clock that stands still until it is moved, in either direction.
// It is safe for use by many goroutines.
type Clock struct{ ms atomic.Int64 }

// NewClock returns a clock that stands at Start.
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
