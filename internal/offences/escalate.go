package offences

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/phrase"
)

// Candidate is a key that offended, with its offences in one flush.
type Candidate struct {
	State State // before the flush
	// First and Last are the times of the oldest and the newest offence of the flush, in Unix
	// milliseconds.
	First, Last int64
	// Offences is how many offences count, including those of the flush, from the minute From on,
	// which is EscalationPolicy.CountFrom; 0 if the flush has none.
	Offences, From int64
}

// Newest returns the time of the key's newest offence, which another node may have counted already
// if this flush is late. An offence of a node whose clock is ahead counts as one of now.
func (c *Candidate) Newest(now int64) int64 { return max(c.Last, min(c.State.Last, now)) }

// EarnedBlock is an automatic block that must be added.
type EarnedBlock struct {
	Key    string
	Level  int // from 1
	Until  time.Time
	Reason string
	// Challenges says that clients with a pass go on.
	Challenges bool
}

// Result is the effect of one flush under one policy.
type Result struct {
	// States are the states of all candidates after the flush, in the same order. If a key has an
	// Event, its offences in the minute CountsFrom and later do not count again either.
	States []State
	// Blocks must be added, in the order of the candidates; none under a shadow policy. The id of
	// a block must then be stored as BlockID of its key's State and Event.
	Blocks []EarnedBlock
	// Events are the events of the flush, without ids.
	Events []EscalationEvent
	// Paused is set if the safety limit pauses the policy's automatic blocks now, otherwise nil.
	Paused *EscalationPause
}

// CountFrom returns the first minute whose offences count for a key. otherBlockEnd is the end of
// the newest block that selects the key, of every check or in the escalation's scope, and was not
// made by this escalation, 0 for none. newest is the key's newest offence. Offences from before
// the end of a block do not count after it. The minute in which such a block ended counts as
// before its end.
func (l EscalationPolicy) CountFrom(s State, otherBlockEnd, newest int64) int64 {
	from := max(l.WindowStart(newest), s.CountsFrom)
	if otherBlockEnd <= max(from, s.Ended) {
		return from
	}
	if otherBlockEnd > 1<<62 { // a permanent block
		return otherBlockEnd
	}
	return MinuteOf(otherBlockEnd) + MinuteMillis
}

// Escalate decides the effect of one flush under one policy. It reads no clock and no store, and
// does not change its arguments.
func Escalate(l EscalationPolicy, candidates []Candidate, limit SafetyLimit, now time.Time) Result {
	r := Result{States: make([]State, len(candidates))}
	var reached []int
	for i, c := range candidates {
		s := c.State
		s.Offend(&l, c.First, c.Last, now.UnixMilli())
		if c.From > l.WindowStart(c.Newest(now.UnixMilli())) { // a permanent block may still be ended
			s.CountsFrom = max(s.CountsFrom, min(c.From, MinuteOf(now.UnixMilli())+MinuteMillis))
		}
		r.States[i] = s
		if c.Offences >= int64(l.Threshold) {
			reached = append(reached, i)
		}
	}
	if len(reached) == 0 || limit.Paused {
		return r
	}
	if limit.New > 0 && limit.Blocked+limit.New > limit.Allowed {
		r.pause(&l, limit, now)
		return r
	}
	for _, i := range reached {
		r.escalate(&l, &r.States[i], candidates[i].Offences, now)
	}
	return r
}

func (r *Result) pause(l *EscalationPolicy, limit SafetyLimit, now time.Time) {
	wanted := limit.Blocked + limit.New
	detail := fmt.Sprintf("The escalation of the policy %s is paused: within an hour it would block %s of about %s, and %s are allowed, where the addresses of one IPv4 /24 or IPv6 /48 count once. It stays paused until an operator has checked its rules and resumes it.",
		l.Name, phrase.Number(wanted), phrase.Count(limit.Seen, "key"), phrase.Number(limit.Allowed))
	r.Paused = &EscalationPause{Policy: l.Policy, Name: l.Name, At: now, WouldBlock: wanted, Allowed: limit.Allowed, Seen: limit.Seen, Detail: detail}
	r.Events = append(r.Events, EscalationEvent{At: now, Policy: l.Policy, Name: l.Name, Kind: EscalationPaused, Detail: detail})
}

func (r *Result) escalate(l *EscalationPolicy, s *State, offences int64, now time.Time) {
	length := l.BlockAfter(s.Level)
	until := time.UnixMilli(s.Escalate(l, now.UnixMilli())).UTC()
	s.CountsFrom = MinuteOf(now.UnixMilli())
	detail := fmt.Sprintf("%s within %s under the policy %s: level %d, for %s",
		phrase.Count(offences, "offence"), phrase.Duration(l.Window), l.Name, s.Level, phrase.Duration(length))
	challenges := s.Level <= l.ChallengeLevels
	if challenges {
		detail += ", and browsers that solve a challenge go on"
	}
	if l.Scope != "" {
		detail += ", in the scope " + l.Scope + " only"
	}
	detail += "."
	r.Events = append(r.Events, EscalationEvent{At: now, Policy: l.Policy, Name: l.Name, Key: s.Key, Kind: l.EventKind(), Level: s.Level,
		Offences: offences, Length: length, Detail: detail})
	if !l.Shadow {
		r.Blocks = append(r.Blocks, EarnedBlock{Key: s.Key, Level: s.Level, Until: until, Reason: detail, Challenges: challenges})
	}
}

// EventKind returns the kind of the event for a key that reaches the threshold.
func (l *EscalationPolicy) EventKind() EscalationEventKind {
	if l.Shadow {
		return EscalationWouldBlock
	}
	return EscalationBlocked
}
