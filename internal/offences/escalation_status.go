package offences

import (
	"time"
)

// EscalationStatus is where a key stands under its policy's escalation, and what comes next.
type EscalationStatus struct {
	Policy string // name
	Shadow bool   // it only says whom it would block
	Level  int    // blocks earned and not forgotten
	Levels int    // how many there are until the longest block
	// Counted of Enough offences within Within are there for the next step.
	Count, Threshold int64
	Window           time.Duration
	Next             time.Duration // how long the next block is
	DecaysAt         time.Time     // of one step, if it stays quiet; zero on the ground
	Paused           bool          // the guard has stopped the escalation
}

func (l *EscalationPolicy) Status(state State, counted []EscalationCount, now int64) *EscalationStatus {
	state.Decay(l, now)
	standing := &EscalationStatus{
		Policy: l.Name, Shadow: l.Shadow, Level: state.Level, Levels: l.Levels(), Threshold: int64(l.Threshold),
		Window: l.Window, Next: l.BlockAfter(state.Level),
	}
	if at := state.DecaysAt(l); at != 0 {
		standing.DecaysAt = time.UnixMilli(at).UTC()
	}
	for _, c := range counted {
		if c.Minute >= l.CountFrom(state, 0, now) {
			standing.Count += c.Offences
		}
	}
	return standing
}

// Steps returns how many steps it takes to the longest block.
func (l *EscalationPolicy) Levels() int {
	steps := 1
	for l.Factor > 1 && l.BlockAfter(steps-1) < l.MaxDuration && steps < 1000 {
		steps++
	}
	return steps
}
