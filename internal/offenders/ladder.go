package offenders

import (
	"math"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// Ladder is the escalation of one policy as it is evaluated.
type Ladder struct {
	Policy int64
	Name   string // of the policy
	// Shadow says that the policy only watches: the ladder then says whom it
	// would have blocked.
	Shadow bool
	rules.Escalation
}

// LaddersOf returns the ladders of the policies that have one, by id.
func LaddersOf(policies []*rules.Policy) map[int64]Ladder {
	ladders := map[int64]Ladder{}
	for _, p := range policies {
		if p.Escalation != nil && p.Mode != rules.Off {
			ladders[p.ID] = Ladder{Policy: p.ID, Name: p.Name, Shadow: p.Mode == rules.Shadow, Escalation: *p.Escalation}
		}
	}
	return ladders
}

// Counts reports whether offences of that kind climb the ladder.
func (l *Ladder) Counts(k Kind) bool {
	if l.Shadow {
		return k == Shadow
	}
	return k == Limited
}

// BlockAfter returns how long the block is that follows step blocks.
func (l *Ladder) BlockAfter(step int) time.Duration {
	length := float64(l.Block) * math.Pow(l.Factor, float64(step))
	if length >= float64(l.Cap) { // infinity included
		return l.Cap
	}
	return time.Duration(length).Truncate(time.Millisecond)
}

// WindowStart returns the first minute whose offences count at an instant:
// whole minutes that cover Within and up to one more.
func (l *Ladder) WindowStart(now int64) int64 { return minuteOf(now) - l.Within.Milliseconds() }

// LadderState is where one key stands on a ladder. Times are Unix
// milliseconds. The zero value stands on the ground.
type LadderState struct {
	Policy int64
	Key    string
	Step   int // blocks earned and not forgotten
	// BlockID is of the newest block, "" for none and under a shadow policy.
	BlockID string
	// Ended is when the newest block ends or was lifted: only offences from
	// then on count.
	Ended     int64
	Last      int64 // the newest offence
	Forgotten int64 // up to when quiet spells have been taken into account
	// CountsFrom is the first minute whose offences may count: those before led
	// to a block, or another's block ended behind them.
	CountsFrom int64
}

// LadderCount is the offences of one minute that count for a key.
type LadderCount struct {
	Policy   int64
	Key      string
	Minute   int64
	Offences int64
}

// QuietSince returns since when the key has neither offended nor been blocked.
func (s *LadderState) QuietSince() int64 { return max(s.Ended, s.Last, s.Forgotten) }

// Forget takes one step back for each quiet spell until now.
func (s *LadderState) Forget(l *Ladder, now int64) {
	spell := l.ForgetAfter.Milliseconds()
	spells := (now - s.QuietSince()) / spell
	if s.Step == 0 || spells <= 0 {
		return
	}
	s.Forgotten = s.QuietSince() + spells*spell
	s.Step = int(max(0, int64(s.Step)-spells))
}

// Offend notes offences between two instants.
func (s *LadderState) Offend(l *Ladder, first, last int64) {
	s.Forget(l, first)
	s.Last = max(s.Last, last)
}

// Climb takes the next step at now and returns the end of the block that goes
// with it.
func (s *LadderState) Climb(l *Ladder, now int64) (until int64) {
	s.Ended = now + l.BlockAfter(s.Step).Milliseconds()
	s.Step++
	s.BlockID = ""
	return s.Ended
}

// ForgetsAt returns when the next step will be forgotten if it stays quiet, 0
// on the ground.
func (s *LadderState) ForgetsAt(l *Ladder) int64 {
	if s.Step == 0 {
		return 0
	}
	return s.QuietSince() + l.ForgetAfter.Milliseconds()
}

// Guard bounds what ladders do unasked: within an hour, one ladder may block
// Share of the keys that its policy saw in that hour, and always at least
// AtLeast keys, so that small installations work. One that would block more
// stops until a person resumes it. Zero fields mean DefaultGuard's.
type Guard struct {
	Share   float64
	AtLeast int
}

// DefaultGuard is the guard where no setting says otherwise.
var DefaultGuard = Guard{Share: 0.2, AtLeast: 10}

// Allows returns how many keys may be blocked within an hour in which about
// seen keys were seen. The estimate is taken low by three standard errors.
func (g Guard) Allows(seen int64) int64 {
	if g.Share <= 0 {
		g.Share = DefaultGuard.Share
	}
	if g.AtLeast <= 0 {
		g.AtLeast = DefaultGuard.AtLeast
	}
	return max(int64(g.AtLeast), int64(g.Share*float64(seen)*(1-3*DistinctError)))
}

// GuardSpan is the time that a Guard looks back on.
const GuardSpan = time.Hour

// LadderEventKind says what a ladder did.
type LadderEventKind string

// What a ladder does.
const (
	LadderBlocked    LadderEventKind = "blocked"
	LadderWouldBlock LadderEventKind = "would_block" // a shadow policy's
	LadderStopped    LadderEventKind = "stopped"     // by the guard; Key is ""
	LadderResumed    LadderEventKind = "resumed"     // by a person; Key is ""
)

// LadderEvent is one thing that a ladder did.
type LadderEvent struct {
	ID       string // UUIDv7
	At       time.Time
	Policy   int64
	Name     string // the policy's name then
	Key      string
	Kind     LadderEventKind
	Step     int // from 1
	Offences int64
	Length   time.Duration
	BlockID  string
	Detail   string // one sentence for people, safe to print
}

// LadderStop is a ladder that waits for a person.
type LadderStop struct {
	Policy     int64
	Name       string
	At         time.Time
	WouldBlock int64 // keys within an hour, those that it held back included
	Allowed    int64 // by the guard
	Seen       int64 // keys seen within that hour, estimated
	Detail     string
}
