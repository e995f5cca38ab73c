package adminui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// areas is the chart of checks a second, stacked from below: allowed, limited,
// blocked. Outlines are in shares of the drawing's width and height, so that it
// fits any room without a script; everything that must not be stretched is
// placed in percent.
type areas struct {
	Allowed, Limited, Blocked string // outlines, 0 to 1
	LimitedEdge, BlockedEdge  string // lower edges of those two, 0 to 1000
	Rules                     []areaRule
	Ticks                     []areaTick
	Squares                   []areaSquare
	Points                    []offences.Interval
	Begins                    *areaMark  // of an attack
	Brush                     *areaBrush // what is selected
	From, To                  time.Time
	Step                      time.Duration
	Sentence                  string
}

type areaRule struct {
	Y     string // percent
	Label string
}

type areaTick struct {
	X     string // percent
	Label string
	Minor bool // left out where there is little room
	End   string
}

// areaSquare stands for an automatic block.
type areaSquare struct{ X, Title string }

type areaMark struct{ X, Label, Anchor string }

// areaBrush is a part of the chart that is selected.
type areaBrush struct {
	From, To       time.Time
	X, Width, EndX string
	Rest           string // what follows it
	Sentence       string
	Address        string
}

// stepOf returns how long the parts of a chart are: whole minutes, about a
// hundred of them, and whole hours where minutes would be too many to read.
func stepOf(length time.Duration) time.Duration {
	switch {
	case length <= 3*time.Hour:
		return time.Minute
	case length <= 26*time.Hour:
		return 15 * time.Minute
	case length <= 10*24*time.Hour:
		return time.Hour
	case length <= 60*24*time.Hour:
		return 6 * time.Hour
	}
	return 24 * time.Hour
}

// drawAreas returns the chart of points over a span.
func drawAreas(points []offences.Interval, s span, step time.Duration) *areas {
	a := &areas{Points: points, From: s.From, To: s.To, Step: step}
	top := 0.0
	for i := range points {
		p := &points[i]
		top = max(top, p.Rate(p.Allowed+p.Limited+p.Blocked))
	}
	rounded, each := roundTop(top)
	for value := 0.0; value <= rounded; value += each {
		a.Rules = append(a.Rules, areaRule{percent(1 - value/rounded), axisLabel(value)})
	}
	xs, low, middle, high := make([]float64, 0, len(points)+2), []float64{}, []float64{}, []float64{}
	put := func(x float64, p *offences.Interval) {
		xs = append(xs, x)
		low = append(low, p.Rate(p.Allowed)/rounded)
		middle = append(middle, p.Rate(p.Allowed+p.Limited)/rounded)
		high = append(high, p.Rate(p.Allowed+p.Limited+p.Blocked)/rounded)
	}
	// Each part is drawn at its middle; the first and the last reach the edges.
	for i := range points {
		p := &points[i]
		x := a.share(p.At.Add(time.Duration(p.Seconds / 2 * float64(time.Second))))
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
	a.Blocked = outline(xs, middle, high)
	a.LimitedEdge, a.BlockedEdge = edge(xs, low, middle), edge(xs, middle, high)
	a.Ticks = ticksOf(s)
	return a
}

// Data returns the points for the script that sums up what is selected.
func (a *areas) Data() string {
	var b strings.Builder
	for i, p := range a.Points {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d,%d,%d,%d", p.At.UnixMilli(), p.Allowed, p.Limited, p.Blocked)
	}
	return b.String()
}

// share returns where an instant stands between the edges, 0 to 1.
func (a *areas) share(t time.Time) float64 {
	return min(1, max(0, float64(t.Sub(a.From))/float64(a.To.Sub(a.From))))
}

// addSquares puts a square on the rail for each automatic block.
func (a *areas) addSquares(events []offences.EscalationEvent) {
	for _, e := range events {
		if e.Kind == offences.EscalationBlocked && !e.At.Before(a.From) && e.At.Before(a.To) {
			a.Squares = append(a.Squares, areaSquare{percent(a.share(e.At)), e.At.UTC().Format("15:04:05")})
		}
	}
}

func (a *areas) mark(at time.Time, label string) {
	x := a.share(at)
	m := &areaMark{X: percent(x), Label: label, Anchor: "end"}
	if x < 0.35 {
		m.Anchor = "start"
	}
	a.Begins = m
}

// outline returns the path around what lies between two heights.
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

// edge returns the line under an area where it has any height.
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

func verb(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

func coordinate(f float64) string { return strconv.FormatFloat(f, 'f', 4, 64) }

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 3, 64) + "%" }

// roundTop returns the round figure at the top of an axis and the distance of
// its rules, of which there are three or four.
func roundTop(most float64) (top, each float64) {
	if most <= 0 {
		return 3, 1
	}
	for unit := 0.001; ; unit *= 10 {
		for _, each := range []float64{unit, 2 * unit, 3 * unit, 5 * unit, 6 * unit} {
			if 3*each >= most {
				return 3 * each, each
			}
		}
	}
}

func axisLabel(value float64) string {
	if value >= 1 || value == 0 {
		return number(int64(value + 0.5))
	}
	return strings.TrimRight(strconv.FormatFloat(value, 'f', 3, 64), "0")
}

// tickSteps are the distances that the labels under a chart may have.
var tickSteps = []time.Duration{
	time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 56 * 24 * time.Hour,
}

// ticksOf labels about six instants of a span.
func ticksOf(s span) []areaTick {
	length := s.Length()
	each := tickSteps[len(tickSteps)-1]
	if i := slices.IndexFunc(tickSteps, func(d time.Duration) bool { return length/d <= 8 }); i >= 0 {
		each = tickSteps[i]
	}
	format := "15:04"
	if each >= 24*time.Hour {
		format = "2 Jan"
	}
	var all []areaTick
	for at := s.From.Truncate(each).Add(each); !at.After(s.To); at = at.Add(each) {
		x := float64(at.Sub(s.From)) / float64(length)
		if x < 0.03 || x > 0.97 {
			continue
		}
		label := at.Format(format)
		if each < 24*time.Hour && length > 26*time.Hour {
			label = at.Format("Mon 15:04")
		}
		all = append(all, areaTick{X: percent(x), Label: label, Minor: len(all)%2 == 1})
	}
	return all
}

// spark is a line of one key's offences.
type spark struct {
	Line, Area string
	// Foot is where a solid foot begins because the key is blocked, "" where it
	// is not.
	Foot, FootWidth string
	Sentence        string
}

const (
	sparkWidth  = 88
	sparkHeight = 22
)

// drawSpark draws a trend on its own scale. blocked is since when the key is
// blocked, zero for not.
func drawSpark(trend []int64, s span, blocked time.Time) *spark {
	if len(trend) == 0 {
		return nil
	}
	most := slices.Max(trend)
	x := func(i int) float64 { return 1 + float64(i)*(sparkWidth-2)/float64(max(1, len(trend)-1)) }
	y := func(n int64) float64 {
		return sparkHeight - 3 - float64(n)/float64(max(1, most))*(sparkHeight-6)
	}
	var line strings.Builder
	for i, n := range trend {
		line.WriteString(verb(i) + strconv.FormatFloat(x(i), 'f', 1, 64) + " " + strconv.FormatFloat(y(n), 'f', 1, 64))
	}
	d := &spark{Line: line.String(), Sentence: "At most " + number(most) + " in " + duration((s.Length() / time.Duration(len(trend))).Round(time.Second)) + "."}
	d.Area = d.Line + "L" + strconv.FormatFloat(x(len(trend)-1), 'f', 1, 64) + " 19L1 19Z"
	if !blocked.IsZero() {
		from := 1 + min(1, max(0, float64(blocked.Sub(s.From))/float64(s.Length())))*(sparkWidth-2)
		from = min(from, sparkWidth-5)
		d.Foot, d.FootWidth = strconv.FormatFloat(from, 'f', 1, 64), strconv.FormatFloat(sparkWidth-1-from, 'f', 1, 64)
	}
	return d
}
