package adminui

import (
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offenders"
)

// timeLine draws the very requests that count for a rule: its window, which
// ends now, and how the request that all wait for ages out one window later.
// Places are in percent of the drawing's width.
type timeLine struct {
	Rule        string
	Window      string // "minute", "10 s"
	Used, Limit int
	Box, BoxW   string // the window
	NowX        string
	Now         string
	Counting    []timeMark
	AgedOut     []timeMark
	Refused     []timeMark
	Freed       []timeMark // instants at which one more ages out
	Ahead       []timeMark // reservations that are reserved
	// RefusedCount says that refused requests count too.
	RefusedCount bool
	// Oldest is the request that the next one waits for, or the oldest that
	// counts; nil for none.
	Oldest   *timeMark
	OldestAt string
	NextX    string // where it ages out
	NextAt   string
	NextIn   string
	Limited  bool
	Sentence string
	More     int // that count and are not drawn
}

type timeMark struct {
	X       string
	At      time.Time
	AgesOut time.Time // of a request that counts
}

const (
	lineBefore = 0.28 // of the window before it
	lineAfter  = 0.36 // and after now
	maxFreed   = 8
	maxDrawn   = 240
)

func drawTimeLine(px *gate.PolicyExplanation, r *keyRule, now time.Time, refused []time.Time) *timeLine {
	w := r.Rule.Window
	from, to := now.Add(-time.Duration((1+lineBefore)*float64(w))), now.Add(time.Duration(lineAfter*float64(w)))
	reservations := reservationsAheadOf(px)
	if reservations != nil {
		to = farEnough(to, px.Answer.RetryAt, now, w)
	}
	share := func(t time.Time) float64 { return min(1, max(0, float64(t.Sub(from))/float64(to.Sub(from)))) }
	place := func(t time.Time) string { return percent(share(t)) }
	l := &timeLine{
		Rule: r.Text, Window: lastWindow(w), Used: r.Used, Limit: r.Rule.Limit, NowX: place(now), Now: instant(now, now),
		Box: place(now.Add(-w)), BoxW: percent(share(now) - share(now.Add(-w))), Limited: r.Decides,
		RefusedCount: px.Policy.Options.CountRefused,
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
		l.Sentence = "No request counts for " + r.Text + " at the moment."
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

// farEnough moves the drawing's end to where a request would be allowed that
// does not wait, at most four windows away.
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

// comeAfter draws when a request is allowed that does not wait while reservations are
// reserved.
func (l *timeLine) comeAfter(reservations *reservationsAhead, next, now time.Time, place func(time.Time) string) {
	l.Sentence = "In the last " + l.Window + " " + plural(l.Used, "request") + " went through, and " + reservations.Text() + " " + reservations.Verb() +
		" ahead, the last at " + instant(reservations.Last, now) + "."
	if next.IsZero() {
		return
	}
	l.NextX, l.NextAt, l.NextIn = place(next), instant(next, now), duration(next.Sub(now))
	l.Sentence += " A request that does not wait is allowed at " + l.NextAt + ", in " + l.NextIn + "."
}

// wait draws how the oldest request ages out.
func (l *timeLine) wait(oldest, now time.Time, w time.Duration, place func(time.Time) string) {
	l.Oldest = &timeMark{X: place(oldest), At: oldest}
	l.OldestAt = instant(oldest, now)
	next := oldest.Add(w)
	l.NextX, l.NextAt, l.NextIn = place(next), instant(next, now), duration(next.Sub(now))
	l.Sentence = "In the last " + l.Window + " " + plural(l.Used, "request") + " count of " + number(int64(l.Limit)) + " that are allowed. The oldest, of " +
		l.OldestAt + ", ages out at " + l.NextAt + ", in " + l.NextIn + "."
}

// NearLabel says on which side of its mark a label has room.
func (l *timeLine) NearLabel() string {
	if f, err := strconv.ParseFloat(l.Oldest.X[:len(l.Oldest.X)-1], 64); err == nil && f > 25 {
		return "end"
	}
	return "start"
}

// lastWindow names a window in a sentence: "the last minute".
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
	return window(w)
}

// Crowded reports whether the labels of the oldest request and of the next one
// stand too close for one line.
func (l *timeLine) Crowded() bool { return l.Oldest != nil && l.NearLabel() == "end" }

// NextY is the line of the last label.
func (l *timeLine) NextY() int {
	if l.Crowded() {
		return 166
	}
	return 148
}

// Height is the drawing's.
func (l *timeLine) Height() int { return l.NextY() + 10 }

// bars are one key's offences over time, and the blocks that stood.
type bars struct {
	Bars   []bar
	Blocks []barBlock
	Rules  []areaRule
	Ticks  []areaTick
	Total  int64
	LastHour,
	Shadow int64
	Span     span
	Width    time.Duration // of one bar
	Newest   time.Time     // of the newest bar with an offence, zero for none
	Sentence string
}

type bar struct {
	At               time.Time
	X, W             string // percent
	Limited, Blocked string // heights, percent
	LimitedY         string
	BlockedY         string
	Shadow           string
	ShadowY          string
	Counts           offenders.TimelinePoint
}

// barBlock is the time for which a block stood.
type barBlock struct{ X, W, Label, LabelX, Anchor string }

const barCount = 96

func drawBars(t *offenders.Timeline, s span, stood []*blocks.Entry, now time.Time) *bars {
	b := &bars{Span: s, Width: s.Length() / barCount, Ticks: ticksOf(s)}
	var most int64
	for _, p := range t.Points {
		n := p.Limited + p.Blocked
		most = max(most, n+p.Shadow)
		b.Total += n
		b.Shadow += p.Shadow
		if n > 0 || p.Shadow > 0 {
			b.Newest = p.At
		}
		if p.At.After(s.To.Add(-time.Hour)) {
			b.LastHour += n
		}
	}
	minutes := b.Width.Minutes()
	top, each := roundTop(float64(most) / minutes)
	for value := each; value < top; value += each {
		b.Rules = append(b.Rules, areaRule{percent(1 - value/top), axisLabel(value) + " a minute"})
	}
	height := func(n int64) float64 { return float64(n) / minutes / top }
	for i, p := range t.Points {
		if p.Limited+p.Blocked+p.Shadow == 0 {
			continue
		}
		low, mid, high := height(p.Limited), height(p.Limited+p.Blocked), height(p.Limited+p.Blocked+p.Shadow)
		b.Bars = append(b.Bars, bar{
			At: p.At, X: percent(float64(i) / barCount), W: percent(0.86 / barCount), Counts: p,
			Limited: percent(low), LimitedY: percent(1 - low), Blocked: percent(mid - low), BlockedY: percent(1 - mid),
			Shadow: percent(high - mid), ShadowY: percent(1 - high),
		})
	}
	for _, block := range stood {
		b.addBlock(block, now)
	}
	b.Sentence = number(b.Total) + " offences in " + s.Name() + ", " + number(b.LastHour) + " of them in its last hour."
	return b
}

func (b *bars) addBlock(block *blocks.Entry, now time.Time) {
	end := now
	if !block.Expires.IsZero() && block.Expires.Before(end) {
		end = block.Expires
	}
	if !block.Ended.IsZero() && block.Ended.Before(end) {
		end = block.Ended
	}
	if !end.After(b.Span.From) || block.Created.After(b.Span.To) {
		return
	}
	place := func(t time.Time) float64 { return min(1, max(0, float64(t.Sub(b.Span.From))/float64(b.Span.Length()))) }
	from, to := place(block.Created), place(end)
	mark := barBlock{X: percent(from), W: percent(max(0.006, to-from)), Label: "blocked " + duration(end.Sub(block.Created)), LabelX: percent(to), Anchor: "start"}
	if to > 0.8 {
		mark.LabelX, mark.Anchor = percent(from), "end"
	}
	b.Blocks = append(b.Blocks, mark)
}

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
