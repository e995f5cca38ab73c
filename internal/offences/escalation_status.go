package offences

import (
	"time"
)

// EscalationStatus is the level of a key under a policy's escalation, and its next block.
type EscalationStatus struct {
	Policy string // name of the policy
	Shadow bool   // only reports which keys it would block
	Level  int    // automatic blocks that have not decayed
	Levels int    // number of levels up to the longest block
	// Count is how many offences within Window count so far. At Threshold the next block follows.
	Count, Threshold int64
	Window           time.Duration
	Next             time.Duration // duration of the next block
	DecaysAt         time.Time     // when the level decreases by one if there is no offence until then; zero at level 0
	Paused           bool          // by the safety limit
}

func (l *EscalationPolicy) Status(state State, counted []EscalationCount, now int64) *EscalationStatus {
	state.Decay(l, now)
	status := &EscalationStatus{
		Policy: l.Name, Shadow: l.Shadow, Level: state.Level, Levels: l.Levels(), Threshold: int64(l.Threshold),
		Window: l.Window, Next: l.BlockAfter(state.Level),
	}
	if at := state.DecaysAt(l); at != 0 {
		status.DecaysAt = time.UnixMilli(at).UTC()
	}
	for _, c := range counted {
		if c.Minute >= l.CountFrom(state, 0, now) {
			status.Count += c.Offences
		}
	}
	return status
}

// Levels returns the number of levels up to the longest block.
func (l *EscalationPolicy) Levels() int {
	levels := 1
	for l.Factor > 1 && l.BlockAfter(levels-1) < l.MaxDuration && levels < 1000 {
		levels++
	}
	return levels
}
