package offences

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// EscalationPolicy is the escalation of one policy as it is evaluated.
type EscalationPolicy struct {
	Policy int64
	Name   string // of the policy
	// Shadow says that the policy only watches: the escalation then says whom it
	// would have blocked.
	Shadow bool
	// IsTrap says that the policy refuses all that it applies to. Its safety limit is then
	// a part of what all policies saw: its own keys all offend.
	IsTrap bool
	// CountsNetworks says that the policy counts networks as further keys. These are never
	// blocked by an escalation, but proposed.
	CountsNetworks bool
	Scope          string // of the checks that its blocks refuse, "" for all
	rules.Escalation
}

// EscalationsOf returns the escalations of the policies that have one, by id.
func EscalationsOf(policies []*rules.Policy) map[int64]EscalationPolicy {
	escalations := map[int64]EscalationPolicy{}
	for _, p := range policies {
		if p.Escalation != nil && p.Mode != rules.Off {
			escalations[p.ID] = EscalationPolicy{Policy: p.ID, Name: p.Name, Shadow: p.Mode == rules.Shadow, IsTrap: p.IsTrap(), Scope: p.Scope, CountsNetworks: slices.ContainsFunc(p.Also, func(d rules.Derived) bool { return d.Name == rules.Network }), Escalation: *p.Escalation}
		}
	}
	return escalations
}

// DecaysOf returns after how long a level falls, by policy, of the policies that have an
// escalation, also of those that are off.
func DecaysOf(policies []*rules.Policy) map[int64]time.Duration {
	decays := map[int64]time.Duration{}
	for _, p := range policies {
		if p.Escalation != nil {
			decays[p.ID] = p.Escalation.DecayAfter
		}
	}
	return decays
}

// Counts reports whether offences of that kind count towards escalation.
func (l *EscalationPolicy) Counts(k Kind) bool {
	if l.Shadow {
		return k == Shadow
	}
	return k == Limited
}

// NeverBlocks reports whether no escalation may block a key: a network that is counted as
// a further key of its addresses, among which are people who did nothing.
func (l *EscalationPolicy) NeverBlocks(key string) bool {
	return l.CountsNetworks && strings.HasPrefix(key, rules.Network+":")
}

// BlockAfter returns the duration of the block that follows so many blocks.
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

// State is the level of one key under one escalation. Times are Unix
// milliseconds. The zero value is level 0.
type State struct {
	Policy int64
	Key    string
	Level  int // automatic blocks that have not decayed
	// BlockID is of the newest block, "" for none and under a shadow policy.
	BlockID string
	// Ended is when the newest block ends or was lifted: only offences from
	// then on count.
	Ended     int64
	Last      int64 // the newest offence
	DecayedTo int64 // up to when decay has been applied
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

// Decay lowers the level by one for each DecayAfter that passed without an
// offence or a block until now.
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

// Escalate raises the level at now and returns the end of the block of that
// level.
func (s *State) Escalate(l *EscalationPolicy, now int64) (until int64) {
	s.Ended = now + l.BlockAfter(s.Level).Milliseconds()
	s.Level++
	s.BlockID = ""
	return s.Ended
}

// DecaysAt returns when the level falls by one if there is no offence until
// then, 0 at level 0 and while the block that it is from is permanent.
func (s *State) DecaysAt(l *EscalationPolicy) int64 {
	quiet, after := s.QuietSince(), l.DecayAfter.Milliseconds()
	if s.Level == 0 || quiet > math.MaxInt64-after {
		return 0
	}
	return quiet + after
}

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
	WouldBlock int64 // within an hour, what it held back included; see SafetyUnit
	Allowed    int64 // by the safety limit
	Seen       int64 // within that hour, estimated
	Detail     string
}
