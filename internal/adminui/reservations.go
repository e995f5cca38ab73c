package adminui

import (
	"time"

	"github.com/stint-dev/stint/internal/gate"
)

// reservationsAhead are the requests of a key that have made a reservation in a log and
// still wait for it.
type reservationsAhead struct {
	Requests int
	More     bool // there are more than are known one by one
	Last     time.Time
	// Only says that nothing but them makes a request wait that comes now.
	Only bool
}

// reservationsAheadOf returns the reservations that lie ahead of the log's own time, nil for
// none, and under a counter, which keeps no times.
func reservationsAheadOf(px *gate.PolicyExplanation) *reservationsAhead {
	t := &reservationsAhead{Only: onlyReservations(px)}
	for _, at := range px.Timestamps {
		if at.After(px.Answer.At) {
			t.Requests++
		}
	}
	if t.Requests == 0 {
		return nil
	}
	t.Last, t.More = px.Timestamps[0], t.Requests == gate.MaxTimestamps
	return t
}

// onlyReservations reports whether a request that comes now is refused for no rule's
// sake, but since it would overtake those who wait.
func onlyReservations(px *gate.PolicyExplanation) bool {
	return !px.Allowed && !px.Answer.Never && px.Answer.Boundary.IsZero() && len(px.Timestamps) > 0 && px.Answer.RetryAt.Equal(px.Timestamps[0])
}

// Text counts them: "2 reservations", "more than 1,000 reservations".
func (t *reservationsAhead) Text() string {
	text := plural(t.Requests, "reservation")
	if t.More {
		text = "at least " + text
	}
	return text
}

// Verb agrees with Text.
func (t *reservationsAhead) Verb() string {
	if t.Requests == 1 {
		return "lies"
	}
	return "lie"
}
