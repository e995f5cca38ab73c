package logfollow

import (
	"errors"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// ErrNoAnswer ends a Run with a Speed if the server has not answered once.
var ErrNoAnswer = errors.New("no answer from the server")

// paceEvery is how often lines are taken that are held back.
const paceEvery = 10 * time.Millisecond

// pace holds lines back until their time comes.
type pace struct {
	speed     float64 // 0: nothing is held back
	hasBegun  bool
	first     int64 // Unix milliseconds in the earliest line
	begun     time.Time
	now       time.Time // of this round
	isWaiting bool      // for the first line of each log
}

// heldLine is a request that is held back.
type heldLine struct {
	record accesslog.Record
	line   pendingLine
}

// isDue reports whether a line of that time may be taken. In the first round none may: the
// earliest line of all logs shows when the others come.
func (p *pace) isDue(at int64) bool {
	if p.speed == 0 {
		return true
	}
	if !p.hasBegun {
		if !p.isWaiting || at < p.first {
			p.first, p.isWaiting = at, true
		}
		return false
	}
	return float64(p.now.Sub(p.begun).Milliseconds())*p.speed >= float64(at-p.first)
}

// beginRound notes the time of the lines that are due.
func (p *pace) beginRound(now time.Time) {
	if p == nil {
		return
	}
	if p.isWaiting && !p.hasBegun {
		p.hasBegun, p.begun = true, now
	}
	p.now = now
}
