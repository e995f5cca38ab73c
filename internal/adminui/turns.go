package adminui

import (
	"time"

	"github.com/stint-dev/stint/internal/gate"
)

// turnsAhead are the requests of a key that have reserved a turn in a log and
// still wait for it.
type turnsAhead struct {
	Requests int
	More     bool // there are more than are known one by one
	Last     time.Time
	// Only says that nothing but them makes a request wait that comes now.
	Only bool
}

// turnsAheadOf returns the turns that lie ahead of the log's own time, nil for
// none, and under a counter, which keeps no times.
func turnsAheadOf(px *gate.PolicyExplanation) *turnsAhead {
	t := &turnsAhead{Only: onlyTurns(px)}
	for _, at := range px.Times {
		if at.After(px.Answer.At) {
			t.Requests++
		}
	}
	if t.Requests == 0 {
		return nil
	}
	t.Last, t.More = px.Times[0], t.Requests == gate.MaxTimes
	return t
}

// onlyTurns reports whether a request that comes now is refused for no rule's
// sake, but since it would overtake those who wait.
func onlyTurns(px *gate.PolicyExplanation) bool {
	return !px.Allowed && !px.Answer.Never && px.Answer.Boundary.IsZero() && len(px.Times) > 0 && px.Answer.RetryAt.Equal(px.Times[0])
}

// Text counts them: "2 turns", "more than 1,000 turns".
func (t *turnsAhead) Text() string {
	text := plural(t.Requests, "turn")
	if t.More {
		text = "at least " + text
	}
	return text
}

// Verb agrees with Text.
func (t *turnsAhead) Verb() string {
	if t.Requests == 1 {
		return "lies"
	}
	return "lie"
}
