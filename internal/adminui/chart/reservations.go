package chart

import (
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/phrase"
)

// Reservations are the requests of a key with a reservation in the future.
type Reservations struct {
	Requests int
	More     bool // there are more than the individually known ones
	Last     time.Time
	// Only means that a new request would wait only because of the reservations.
	Only bool
}

// ReservationsAhead returns the reservations after the log's own time. It returns nil if there
// are none, and for a counter, which keeps no times.
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

// OnlyReservations reports whether no rule refuses a new request, which is only refused because
// it would overtake the reservations.
func OnlyReservations(px *gate.PolicyExplanation) bool {
	return !px.Allowed && !px.Answer.Never && px.Answer.Boundary.IsZero() && len(px.Timestamps) > 0 && px.Answer.RetryAt.Equal(px.Timestamps[0])
}

// Text returns their number: "2 reservations", "more than 1,000 reservations".
func (t *Reservations) Text() string {
	text := phrase.Count(t.Requests, "reservation")
	if t.More {
		text = "at least " + text
	}
	return text
}

// Verb returns the form of "to lie" that agrees with Text.
func (t *Reservations) Verb() string {
	if t.Requests == 1 {
		return "lies"
	}
	return "lie"
}
