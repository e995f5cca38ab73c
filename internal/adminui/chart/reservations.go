package chart

import (
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/gate"
)

// Reservations are the requests of a key that have made a reservation in a log and
// still wait for it.
type Reservations struct {
	Requests int
	More     bool // there are more than are known one by one
	Last     time.Time
	// Only says that nothing but them makes a request wait that comes now.
	Only bool
}

// ReservationsAhead returns the reservations that lie ahead of the log's own time, nil for
// none, and under a counter, which keeps no times.
func ReservationsAhead(px *gate.PolicyExplanation) *Reservations {
	t := &Reservations{Only: OnlyReservations(px)}
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

// OnlyReservations reports whether a request that comes now is refused for no rule's
// sake, but since it would overtake those who wait.
func OnlyReservations(px *gate.PolicyExplanation) bool {
	return !px.Allowed && !px.Answer.Never && px.Answer.Boundary.IsZero() && len(px.Timestamps) > 0 && px.Answer.RetryAt.Equal(px.Timestamps[0])
}

// Text counts them: "2 reservations", "more than 1,000 reservations".
func (t *Reservations) Text() string {
	text := format.Plural(t.Requests, "reservation")
	if t.More {
		text = "at least " + text
	}
	return text
}

// Verb agrees with Text.
func (t *Reservations) Verb() string {
	if t.Requests == 1 {
		return "lies"
	}
	return "lie"
}
