// Package chart draws charts as SVG.
package chart

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
)

// Area is the chart of checks a second, stacked from below: allowed, limited, challenged, blocked. The
// outlines use ratios of the drawing's width and height, so that it fits any size without a
// script. What must not be stretched is positioned in percent.
type Area struct {
	Allowed, Limited, Challenged, Blocked    string // outlines, 0 to 1
	LimitedEdge, ChallengedEdge, BlockedEdge string // lower edges of those three, 0 to 1000
	HasChallenged                            bool
	Rules                                    []gridLine
	Ticks                                    []timeTick
	Squares                                  []square
	Points                                   []offences.Interval
	Begins                                   *mark      // of an attack
	Brush                                    *selection // the selected part
	From, To                                 time.Time
	Step                                     time.Duration
	Sentence                                 string
}

// square marks an automatic block.
type square struct {
	X     string
	Title format.Moment
}

type mark struct {
	X, Anchor string
	Label     format.Sentence
}

// selection is the selected part of the chart.
type selection struct {
	From, To       time.Time
	X, Width, EndX string
	Rest           string // follows the sum
	Sentence       format.Sentence
	Address        string
}

// DrawArea returns the chart of points over a span.
func DrawArea(points []offences.Interval, s format.TimeRange, step time.Duration) *Area {
	a := &Area{Points: points, From: s.From, To: s.To, Step: step}
	top := 0.0
	for i := range points {
		p := &points[i]
		top = max(top, p.Rate(p.Allowed+p.Refused()))
		a.HasChallenged = a.HasChallenged || p.Challenged > 0
	}
	rounded, each := roundTop(top)
	for value := 0.0; value <= rounded; value += each {
		a.Rules = append(a.Rules, gridLine{Percent(1 - value/rounded), axisLabel(value)})
	}
	if last := len(a.Rules) - 1; last >= 0 && len(a.Rules[last].Label) <= 4 {
		a.Rules[last].Label += "/s"
	}
	xs := make([]float64, 0, len(points)+2)
	var low, middle, upper, high []float64
	put := func(x float64, p *offences.Interval) {
		xs = append(xs, x)
		low = append(low, p.Rate(p.Allowed)/rounded)
		middle = append(middle, p.Rate(p.Allowed+p.Limited)/rounded)
		upper = append(upper, p.Rate(p.Allowed+p.Limited+p.Challenged)/rounded)
		high = append(high, p.Rate(p.Allowed+p.Refused())/rounded)
	}
	// Each part shorter than an hour is drawn at its middle, but the first and the last reach the edges.
	isHourly := step >= time.Hour
	for i := range points {
		p := &points[i]
		if isHourly { // a step: nobody knows what happened within it
			put(a.placeOf(p.At), p)
			put(a.placeOf(p.At.Add(time.Duration(p.Seconds*float64(time.Second)))), p)
			continue
		}
		x := a.placeOf(p.At.Add(time.Duration(p.Seconds / 2 * float64(time.Second))))
		if i == 0 {
			put(0, p)
		}
		put(x, p)
		if i == len(points)-1 {
			put(1, p)
		}
	}
	floor := make([]float64, len(xs))
	a.Allowed = outline(xs, floor, low)
	a.Limited = outline(xs, low, middle)
	a.Challenged = outline(xs, middle, upper)
	a.Blocked = outline(xs, upper, high)
	a.LimitedEdge, a.ChallengedEdge, a.BlockedEdge = edge(xs, low, middle), edge(xs, middle, upper), edge(xs, upper, high)
	a.Ticks = ticksOf(s, 0.97)
	return a
}

// Data returns the points for the script that sums the selection.
func (a *Area) Data() string {
	var b strings.Builder
	for i, p := range a.Points {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d,%d,%d", p.At.UnixMilli(), p.Allowed, p.Refused())
	}
	return b.String()
}

// placeOf returns the position of an instant between the edges, 0 to 1.
func (a *Area) placeOf(t time.Time) float64 {
	return min(1, max(0, float64(t.Sub(a.From))/float64(a.To.Sub(a.From))))
}

// AddSquares adds a square to the rail for each automatic block.
func (a *Area) AddSquares(events []offences.EscalationEvent) {
	for _, e := range events {
		if e.Kind == offences.EscalationBlocked && !e.At.Before(a.From) && e.At.Before(a.To) {
			a.Squares = append(a.Squares, square{Percent(a.placeOf(e.At)), format.Second(e.At)})
		}
	}
}

// Mark draws a line at an instant.
func (a *Area) Mark(at time.Time, label format.Sentence) {
	x := a.placeOf(at)
	m := &mark{X: Percent(x), Label: label, Anchor: "end"}
	if x < 0.35 {
		m.Anchor = "start"
	}
	a.Begins = m
}

// outline returns the path around the area between two heights.
func outline(xs, low, high []float64) string {
	var b strings.Builder
	for i := range xs {
		b.WriteString(verb(i) + coordinate(xs[i]) + " " + coordinate(1-high[i]))
	}
	for i := len(xs) - 1; i >= 0; i-- {
		b.WriteString("L" + coordinate(xs[i]) + " " + coordinate(1-low[i]))
	}
	b.WriteString("Z")
	return b.String()
}

// edge returns the lower edge of an area where its height is not 0.
func edge(xs, low, high []float64) string {
	var b strings.Builder
	drawn := 0
	for i := range xs {
		if high[i] <= low[i] && (i == 0 || high[i-1] <= low[i-1]) {
			drawn = 0
			continue
		}
		b.WriteString(verb(drawn) + coordinate(1000*xs[i]) + " " + coordinate(1000*(1-low[i])))
		drawn++
	}
	return b.String()
}

// SelectTime selects a part of the chart, in which sum was counted: the points of the chart may be
// longer. address is the page that shows only that part.
func (a *Area) SelectTime(from, to time.Time, sum offences.Interval, address string) {
	x, end := a.placeOf(from), a.placeOf(to)
	a.Brush = &selection{
		From: from, To: to, X: Percent(x), Width: Percent(end - x), EndX: Percent(end), Rest: Percent(1 - end),
		Sentence: format.Sentence{format.Clock(from), format.Plain(" to "), format.Clock(to).WithZone(), format.Plain(", " +
			phrase.Duration(to.Sub(from)) + " selected: " + format.Compact(sum.Refused()) + " refused, " +
			phrase.Ratio(sum.Refused(), sum.Allowed+sum.Refused()) + " of checks")},
		Address: address,
	}
}
