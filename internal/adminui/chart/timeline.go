package chart

import (
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// Timeline draws the individual requests that count for a rule: its window, which ends now, and
// when the request that all others wait for leaves the window. Positions are in percent of the
// drawing's width.
type Timeline struct {
	Rule        string
	Window      string // "minute", "10 s"
	Used, Limit int
	Box, BoxW   string // the window
	NowX        string
	Now         format.Moment
	Counting    []timeMark
	AgedOut     []timeMark
	Refused     []timeMark
	Freed       []timeMark // when one more leaves the window
	Ahead       []timeMark // reservations in the future
	// RefusedCount means that refused requests count too.
	RefusedCount bool
	// Oldest is the request that the next one waits for, or the oldest that counts; nil for
	// none.
	Oldest   *timeMark
	OldestAt format.Moment
	NextX    string        // where it leaves the window
	NextAt   format.Moment // empty without ISO
	NextIn   string
	Limited  bool
	Sentence format.Sentence
	More     int  // requests that count and are not drawn
	IsCut    bool // even more count than are known one by one
}

type timeMark struct {
	X       string
	At      time.Time
	AgesOut time.Time // when a counted request leaves the window
}

const (
	lineBefore = 0.28 // in windows, before the window
	lineAfter  = 0.36 // in windows, after now
	maxFreed   = 8
	maxDrawn   = 240
)

func DrawTimeline(px *gate.PolicyExplanation, rule rules.Rule, used int, decides bool, now time.Time, refused []time.Time) *Timeline {
	w := rule.Window
	from, to := now.Add(-time.Duration((1+lineBefore)*float64(w))), now.Add(time.Duration(lineAfter*float64(w)))
	reservations := ReservationsAhead(px)
	if reservations != nil {
		to = farEnough(to, px.Answer.RetryAt, now, w)
	}
	share := func(t time.Time) float64 { return min(1, max(0, float64(t.Sub(from))/float64(to.Sub(from)))) }
	place := func(t time.Time) string { return Percent(share(t)) }
	l := &Timeline{
		Rule: format.Rule(rule), Window: lastWindow(w), Used: used, Limit: rule.Limit, NowX: place(now), Now: format.Instant(now, now),
		Box: place(now.Add(-w)), BoxW: Percent(share(now) - share(now.Add(-w))), Limited: decides,
		RefusedCount: px.Policy.Options.CountRefused, IsCut: len(px.Timestamps) == gate.MaxTimestamps,
	}
	oldest := now
	for _, t := range px.Timestamps { // the newest first
		switch {
		case t.After(px.Answer.At):
			if len(l.Ahead) < maxDrawn {
				l.Ahead = append(l.Ahead, timeMark{X: place(t), At: t, AgesOut: t.Add(w)})
			}
		case t.After(now.Add(-w)) && len(l.Counting) < maxDrawn:
			l.Counting = append(l.Counting, timeMark{X: place(t), At: t, AgesOut: t.Add(w)})
		case t.After(now.Add(-w)):
			l.More++
		case t.After(from) && len(l.AgedOut) < maxDrawn:
			l.AgedOut = append(l.AgedOut, timeMark{X: place(t), At: t})
		}
		if t.After(now.Add(-w)) && !t.After(px.Answer.At) {
			oldest = t
		}
	}
	for _, t := range refused {
		if t.After(from) && !t.After(now) {
			l.Refused = append(l.Refused, timeMark{X: place(t), At: t})
		}
	}
	if reservations != nil {
		l.Used = len(l.Counting) + l.More
		l.comeAfter(reservations, px.Answer.RetryAt, now, place)
		return l
	}
	if len(l.Counting) == 0 {
		l.Sentence = format.Sentence{format.Plain("No request counts for " + format.Rule(rule) + " at the moment.")}
		return l
	}
	if l.Limited && !px.Answer.Boundary.IsZero() {
		oldest = px.Answer.Boundary
	}
	l.wait(oldest, now, w, place)
	for i := len(l.Counting) - 1; i >= 0 && len(l.Freed) < maxFreed; i-- {
		if at := l.Counting[i].At.Add(w); at.After(oldest.Add(w)) && at.Before(to) {
			l.Freed = append(l.Freed, timeMark{X: place(at), At: at})
		}
	}
	return l
}

// farEnough extends the drawing to the time when a new request would be allowed, at most four
// windows away.
func farEnough(to, next, now time.Time, w time.Duration) time.Time {
	if next.IsZero() {
		return to
	}
	after := min(4*w, time.Duration(1.1*float64(next.Sub(now))))
	if end := now.Add(after); end.After(to) {
		return end
	}
	return to
}

// comeAfter draws when a new request is allowed if there are reservations.
func (l *Timeline) comeAfter(reservations *Reservations, next, now time.Time, place func(time.Time) string) {
	l.Sentence = format.Sentence{format.Plain("In the last " + l.Window + " " + phrase.Count(l.Used, "request") + " were allowed, and " +
		reservations.Text() + " " + reservations.Verb() + " ahead, the last at "), format.Instant(reservations.Last, now).WithZone(), format.Plain(".")}
	if next.IsZero() {
		return
	}
	l.NextX, l.NextAt, l.NextIn = place(next), format.Instant(next, now), phrase.Duration(next.Sub(now))
	l.Sentence = append(l.Sentence, format.Plain(" A request that does not wait is allowed at "), l.NextAt.WithZone(), format.Plain(", in "+l.NextIn+"."))
}

// wait draws how the oldest request leaves the window.
func (l *Timeline) wait(oldest, now time.Time, w time.Duration, place func(time.Time) string) {
	l.Oldest = &timeMark{X: place(oldest), At: oldest}
	l.OldestAt = format.Instant(oldest, now)
	next := oldest.Add(w)
	l.NextX, l.NextAt, l.NextIn = place(next), format.Instant(next, now), phrase.Duration(next.Sub(now))
	l.Sentence = format.Sentence{format.Plain("In the last " + l.Window + " " + phrase.Count(l.Used, "request") + " count of " +
		phrase.Number(int64(l.Limit)) + " that are allowed. The oldest, of "), l.OldestAt.WithZone(), format.Plain(", expires at "),
		l.NextAt.WithZone(), format.Plain(", in " + l.NextIn + ".")}
}

// NearLabel returns the side of the mark on which its label has room.
func (l *Timeline) NearLabel() string {
	if f, err := strconv.ParseFloat(l.Oldest.X[:len(l.Oldest.X)-1], 64); err == nil && f > 25 {
		return "end"
	}
	return "start"
}

// lastWindow returns a window for a sentence: "the last minute".
func lastWindow(w time.Duration) string {
	switch w {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return format.Window(w)
}

// Crowded reports whether the labels of the oldest and of the next request are too close for
// one line.
func (l *Timeline) Crowded() bool { return l.Oldest != nil && l.NearLabel() == "end" }

// NextY returns the line of the last label.
func (l *Timeline) NextY() int {
	if l.Crowded() {
		return 166
	}
	return 148
}

// Height returns the height of the drawing.
func (l *Timeline) Height() int { return l.NextY() + 10 }
