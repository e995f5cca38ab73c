package offences

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// Candidate is a key that offended, with what one flush says of it.
type Candidate struct {
	State State // before the flush
	// First and Last are the flush's oldest and newest offence, Unix
	// milliseconds.
	First, Last int64
	// Offences is how many count, those of the flush included, from the minute
	// From on, which is Escalation.CountFrom; 0 where the flush brought none.
	Offences, From int64
}

// EarnedBlock is an automatic block to be made.
type EarnedBlock struct {
	Key    string
	Level  int // from 1
	Until  time.Time
	Reason string
}

// Result is what one flush leads to under one policy.
type Result struct {
	// States are those of all candidates after the flush, in their order. Of a
	// key with an Event, what was counted in the minute CountsFrom and later is
	// used up too.
	States []State
	// Blocks are to be made, in the order of the candidates; none under a
	// policy that only watches. A block's id becomes BlockID of its key's State
	// and Event.
	Blocks []EarnedBlock
	// Events are what happened, without ids.
	Events []EscalationEvent
	// Paused is not nil where the safety limit pauses the policy's automatic
	// blocks now.
	Paused *EscalationPause
}

// CountFrom returns the first minute whose offences count for a key, given the
// end of the newest block of another author that selects it, 0 for none, and
// the key's newest offence. Offences from before the end of a block do not
// count after it. The minute in which another's block ended counts as before.
func (l EscalationPolicy) CountFrom(s State, otherBlockEnd, newest int64) int64 {
	from := max(l.WindowStart(newest), s.CountsFrom)
	if otherBlockEnd <= max(from, s.Ended) {
		return from
	}
	if otherBlockEnd > 1<<62 { // a block without an end
		return otherBlockEnd
	}
	return MinuteOf(otherBlockEnd) + MinuteMillis
}

// Escalate decides what one flush leads to under one policy. It reads no clock
// and no store, and changes nothing of what it is given.
func Escalate(l EscalationPolicy, candidates []Candidate, limit SafetyLimit, now time.Time) Result {
	r := Result{States: make([]State, len(candidates))}
	var reached []int
	for i, c := range candidates {
		s := c.State
		s.Offend(&l, c.First, c.Last)
		if c.From > l.WindowStart(c.Last) { // a block that has no end may still be ended
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
	detail := fmt.Sprintf("The escalation of policy %s is paused: within an hour it would block %d of about %d keys, and %d are allowed, where the addresses of one IPv4 /24 or IPv6 /48 count once; it stays paused until an operator has checked its rules and resumes it.",
		l.Name, wanted, limit.Seen, limit.Allowed)
	r.Paused = &EscalationPause{Policy: l.Policy, Name: l.Name, At: now, WouldBlock: wanted, Allowed: limit.Allowed, Seen: limit.Seen, Detail: detail}
	r.Events = append(r.Events, EscalationEvent{At: now, Policy: l.Policy, Name: l.Name, Kind: EscalationPaused, Detail: detail})
}

func (r *Result) escalate(l *EscalationPolicy, s *State, offences int64, now time.Time) {
	length := l.BlockAfter(s.Level)
	until := time.UnixMilli(s.Escalate(l, now.UnixMilli())).UTC()
	s.CountsFrom = MinuteOf(now.UnixMilli())
	detail := fmt.Sprintf("%d offences within %s under policy %s: level %d, %s.",
		offences, rules.FormatWindow(l.Window), l.Name, s.Level, rules.FormatWindow(length))
	r.Events = append(r.Events, EscalationEvent{At: now, Policy: l.Policy, Name: l.Name, Key: s.Key, Kind: l.EventKind(), Level: s.Level,
		Offences: offences, Length: length, Detail: detail})
	if !l.Shadow {
		r.Blocks = append(r.Blocks, EarnedBlock{Key: s.Key, Level: s.Level, Until: until, Reason: detail})
	}
}

// EventKind returns what the escalation does to a key that reaches its threshold.
func (l *EscalationPolicy) EventKind() EscalationEventKind {
	if l.Shadow {
		return EscalationWouldBlock
	}
	return EscalationBlocked
}
