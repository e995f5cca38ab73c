package offences

import (
	"math"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// Escalation is the escalation of one policy as it is evaluated.
type EscalationPolicy struct {
	Policy int64
	Name   string // of the policy
	// Shadow says that the policy only watches: the escalation then says whom it
	// would have blocked.
	Shadow bool
	rules.Escalation
}

// EscalationsOf returns the escalations of the policies that have one, by id.
func EscalationsOf(policies []*rules.Policy) map[int64]EscalationPolicy {
	escalations := map[int64]EscalationPolicy{}
	for _, p := range policies {
		if p.Escalation != nil && p.Mode != rules.Off {
			escalations[p.ID] = EscalationPolicy{Policy: p.ID, Name: p.Name, Shadow: p.Mode == rules.Shadow, Escalation: *p.Escalation}
		}
	}
	return escalations
}

// Counts reports whether offences of that kind count towards escalation.
func (l *EscalationPolicy) Counts(k Kind) bool {
	if l.Shadow {
		return k == Shadow
	}
	return k == Limited
}

// BlockAfter returns how long the block is that follows step blocks.
func (l *EscalationPolicy) BlockAfter(step int) time.Duration {
	length := float64(l.Duration) * math.Pow(l.Factor, float64(step))
	if length >= float64(l.MaxDuration) { // infinity included
		return l.MaxDuration
	}
	return time.Duration(length).Truncate(time.Millisecond)
}

// WindowStart returns the first minute whose offences count at an instant:
// whole minutes that cover Within and up to one more.
func (l *EscalationPolicy) WindowStart(now int64) int64 {
	return MinuteOf(now) - l.Window.Milliseconds()
}

// EscalationState is where one key stands on an escalation. Times are Unix
// milliseconds. The zero value stands on the ground.
type State struct {
	Policy int64
	Key    string
	Level  int // blocks earned and not forgotten
	// BlockID is of the newest block, "" for none and under a shadow policy.
	BlockID string
	// Ended is when the newest block ends or was lifted: only offences from
	// then on count.
	Ended     int64
	Last      int64 // the newest offence
	DecayedTo int64 // up to when quiet spells have been taken into account
	// CountsFrom is the first minute whose offences may count: those before led
	// to a block, or another's block ended behind them.
	CountsFrom int64
}

// EscalationCount is the offences of one minute that count for a key.
type EscalationCount struct {
	Policy   int64
	Key      string
	Minute   int64
	Offences int64
}

// QuietSince returns since when the key has neither offended nor been blocked.
func (s *State) QuietSince() int64 { return max(s.Ended, s.Last, s.DecayedTo) }

// Forget takes one step back for each quiet spell until now.
func (s *State) Decay(l *EscalationPolicy, now int64) {
	spell := l.DecayAfter.Milliseconds()
	spells := (now - s.QuietSince()) / spell
	if s.Level == 0 || spells <= 0 {
		return
	}
	s.DecayedTo = s.QuietSince() + spells*spell
	s.Level = int(max(0, int64(s.Level)-spells))
}

// Offend notes offences between two instants.
func (s *State) Offend(l *EscalationPolicy, first, last int64) {
	s.Decay(l, first)
	s.Last = max(s.Last, last)
}

// Escalate takes the next step at now and returns the end of the block that goes
// with it.
func (s *State) Escalate(l *EscalationPolicy, now int64) (until int64) {
	s.Ended = now + l.BlockAfter(s.Level).Milliseconds()
	s.Level++
	s.BlockID = ""
	return s.Ended
}

// DecaysAt returns when the next step will be forgotten if it stays quiet, 0
// on the ground.
func (s *State) DecaysAt(l *EscalationPolicy) int64 {
	if s.Level == 0 {
		return 0
	}
	return s.QuietSince() + l.DecayAfter.Milliseconds()
}

// Guard bounds what escalations do unasked: within an hour, one escalation may block
// Share of the keys that its policy saw in that hour, and always at least
// AtLeast keys, so that small installations work. One that would block more
// stops until a person resumes it. Zero fields mean DefaultSafetyLimit's.
type SafetyLimitSettings struct {
	Ratio   float64
	MinKeys int
}

// DefaultSafetyLimit is the guard where no setting says otherwise.
var DefaultSafetyLimit = SafetyLimitSettings{Ratio: 0.2, MinKeys: 10}

// Allows returns how many keys may be blocked within an hour in which about
// seen keys were seen. The estimate is taken low by three standard errors.
func (g SafetyLimitSettings) Allows(seen int64) int64 {
	if g.Ratio <= 0 {
		g.Ratio = DefaultSafetyLimit.Ratio
	}
	if g.MinKeys <= 0 {
		g.MinKeys = DefaultSafetyLimit.MinKeys
	}
	return max(int64(g.MinKeys), int64(g.Ratio*float64(seen)*(1-3*DistinctError)))
}

// SafetyLimitWindow is the time that a Guard looks back on.
const SafetyLimitWindow = time.Hour

// EscalationEventKind says what an escalation did.
type EscalationEventKind string

// What an escalation does.
const (
	EscalationBlocked    EscalationEventKind = "blocked"
	EscalationWouldBlock EscalationEventKind = "would_block" // a shadow policy's
	EscalationPaused     EscalationEventKind = "stopped"     // by the guard; Key is ""
	EscalationResumed    EscalationEventKind = "resumed"     // by a person; Key is ""
)

// EscalationEvent is one thing that an escalation did.
type EscalationEvent struct {
	ID       string // UUIDv7
	At       time.Time
	Policy   int64
	Name     string // the policy's name then
	Key      string
	Kind     EscalationEventKind
	Level    int // from 1
	Offences int64
	Length   time.Duration
	BlockID  string
	Detail   string // one sentence for people, safe to print
}

// EscalationPause is an escalation that waits for a person.
type EscalationPause struct {
	Policy     int64
	Name       string
	At         time.Time
	WouldBlock int64 // keys within an hour, those that it held back included
	Allowed    int64 // by the guard
	Seen       int64 // keys seen within that hour, estimated
	Detail     string
}
