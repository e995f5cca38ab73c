package offences

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/rules"
)

// EscalationPolicy is what the evaluation of a policy's escalation needs.
type EscalationPolicy struct {
	Policy int64
	Name   string // of the policy
	// Shadow reports that it is a shadow policy: the escalation then only reports which keys it
	// would have blocked.
	Shadow bool
	// IsTrap reports that the policy refuses every request to which it applies. Its safety limit
	// is then a ratio of the keys that all policies saw, because all keys that the trap itself
	// saw have offended.
	IsTrap bool
	// CountsNetworks reports that the policy counts networks as further keys. An escalation never
	// blocks these; they are proposed instead.
	CountsNetworks bool
	// MatchesPasses reports that a pattern of the policy is for passes. The escalations of others, which
	// passes are counted by too, never block one: many may share it.
	MatchesPasses bool
	Scope         string // the scope of its blocks, "" for none
	rules.Escalation
}

// EscalationsOf returns the escalations of the policies that have one and are not off, by id.
func EscalationsOf(policies []*rules.Policy) map[int64]EscalationPolicy {
	escalations := map[int64]EscalationPolicy{}
	for _, p := range policies {
		if p.Escalation != nil && p.Mode != rules.Off {
			escalations[p.ID] = EscalationPolicy{
				Policy: p.ID, Name: p.Name, Shadow: p.Mode == rules.Shadow, IsTrap: p.IsTrap(), Scope: p.Scope, Escalation: *p.Escalation,
				CountsNetworks: slices.ContainsFunc(p.Also, func(d rules.Derived) bool { return d.Name == rules.Network }),
				MatchesPasses:  slices.ContainsFunc(p.Match, func(m keys.Pattern) bool { return strings.HasPrefix(m.String(), keys.Pass+":") }),
			}
		}
	}
	return escalations
}

// DecaysOf returns the time after which a level decays, by policy. It includes all policies with
// an escalation, even those that are off.
func DecaysOf(policies []*rules.Policy) map[int64]time.Duration {
	decays := map[int64]time.Duration{}
	for _, p := range policies {
		if p.Escalation != nil {
			decays[p.ID] = p.Escalation.DecayAfter
		}
	}
	return decays
}

// Counts reports whether offences of a kind count towards escalation.
func (l *EscalationPolicy) Counts(k Kind) bool {
	if l.Shadow {
		return k == Shadow
	}
	return k == Limited
}

// NeverBlocks reports whether no escalation may block a key. That is so for a network that is
// counted as a further key of its addresses, because some of its users did nothing, for a pass unless
// the policy is for passes, and for the edges of content delivery networks.
func (l *EscalationPolicy) NeverBlocks(key string) bool {
	if l.CountsNetworks && strings.HasPrefix(key, rules.Network+":") {
		return true
	}
	k, err := ParseKey(key)
	if err != nil {
		return false
	}
	network, isAddress := k.Network()
	return k.IsPass() && !l.MatchesPasses || isAddress && proxies.CDN(network.Addr()) != ""
}

// BlockAfter returns the duration of the block after step earlier blocks.
func (l *EscalationPolicy) BlockAfter(step int) time.Duration {
	length := float64(l.Duration) * math.Pow(l.Factor, float64(step))
	if length >= float64(l.MaxDuration) { // including infinity
		return l.MaxDuration
	}
	return time.Duration(length).Truncate(time.Millisecond)
}

// WindowStart returns the first minute whose offences count at now: whole minutes that cover
// Window and up to one minute more.
func (l *EscalationPolicy) WindowStart(now int64) int64 {
	return MinuteOf(now) - l.Window.Milliseconds()
}

// State is the level of one key under one escalation. Times are Unix
// milliseconds. The zero value is level 0.
type State struct {
	Policy int64
	Key    string
	Level  int // automatic blocks that have not decayed
	// BlockID is the id of the newest block, "" for none and under a shadow policy.
	BlockID string
	// Ended is when the newest block expires, or was ended earlier. Only offences after it
	// count.
	Ended     int64
	Last      int64 // time of the newest offence
	DecayedTo int64 // time up to which decay has been applied
	// CountsFrom is the first minute whose offences may count. Earlier ones have led to a block,
	// or were followed by the end of a block that this escalation did not make.
	CountsFrom int64
}

// EscalationCount is the number of offences of a key in one minute.
type EscalationCount struct {
	Policy   int64
	Key      string
	Minute   int64
	Offences int64
}

// QuietSince returns the time since which the key has neither offended nor been blocked.
func (s *State) QuietSince() int64 { return max(s.Ended, s.Last, s.DecayedTo) }

// Decay lowers the level by one for each DecayAfter without an offence or a block until now.
func (s *State) Decay(l *EscalationPolicy, now int64) {
	spell := l.DecayAfter.Milliseconds()
	spells := (now - s.QuietSince()) / spell
	if s.Level == 0 || spells <= 0 {
		return
	}
	s.DecayedTo = s.QuietSince() + spells*spell
	s.Level = int(max(0, int64(s.Level)-spells))
}

// Offend records offences between first and last. None is taken as later than now, or a clock
// that was ahead would delay decay.
func (s *State) Offend(l *EscalationPolicy, first, last, now int64) {
	s.Last = min(s.Last, now)
	s.Decay(l, min(first, now))
	s.Last = max(s.Last, min(last, now))
}

// Escalate raises the level at now and returns the end of the block for that level.
func (s *State) Escalate(l *EscalationPolicy, now int64) (until int64) {
	s.Ended = now + l.BlockAfter(s.Level).Milliseconds()
	s.Level++
	s.BlockID = ""
	return s.Ended
}

// DecaysAt returns when the level decreases by one if there is no offence until then. It is 0 at
// level 0 and during a permanent block.
func (s *State) DecaysAt(l *EscalationPolicy) int64 {
	quiet, after := s.QuietSince(), l.DecayAfter.Milliseconds()
	if s.Level == 0 || quiet > math.MaxInt64-after {
		return 0
	}
	return quiet + after
}

// EscalationEventKind is the kind of an EscalationEvent.
type EscalationEventKind string

// The kinds of escalation events.
const (
	EscalationBlocked    EscalationEventKind = "blocked"
	EscalationWouldBlock EscalationEventKind = "would_block" // under a shadow policy
	EscalationPaused     EscalationEventKind = "stopped"     // by the safety limit; Key is ""
	EscalationResumed    EscalationEventKind = "resumed"     // by a person; Key is ""
)

// EscalationEvent is one event of an escalation.
type EscalationEvent struct {
	ID       string // UUIDv7
	At       time.Time
	Policy   int64
	Name     string // the policy's name at that time
	Key      string
	Kind     EscalationEventKind
	Level    int // from 1
	Offences int64
	Length   time.Duration
	BlockID  string
	Detail   string // one sentence for people, safe to print
}

// EscalationPause is an escalation that is paused until a person resumes it.
type EscalationPause struct {
	Policy     int64
	Name       string
	At         time.Time
	WouldBlock int64 // within an hour, including the blocks that were held back; see SafetyUnit
	Allowed    int64 // by the safety limit
	Seen       int64 // within the same hour, estimated
	Detail     string
}
