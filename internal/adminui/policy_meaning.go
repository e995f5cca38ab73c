package adminui

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// meaning says in words and in a picture what a policy's rules come to.
type meaning struct {
	Most   []figure // "At most 20 in any minute"
	Rest   string   // "At full speed ...", or what a counter does not promise; "" where there is nothing to say
	Advice string   // what would suit such rules better, "" for nothing
	Chart  *speedChart
}

// figure is a stretch of a sentence; figures stand out.
type figure struct {
	Text string
	Bold bool
}

func meaningOf(p *rules.Policy) *meaning {
	most, rest, cut := strings.Cut(p.Describe(), ". ")
	if cut {
		most += "."
	}
	m := &meaning{Most: figures(most), Rest: rest, Advice: adviceOf(p)}
	if a := algorithms.ByName(p.Algorithm); a == nil || a.IsLog() {
		m.Chart = chartOf(p.Rules)
	}
	return m
}

// figures parts a sentence at its numbers.
func figures(sentence string) []figure {
	var all []figure
	for i, word := range strings.Split(sentence, " ") {
		if i > 0 {
			all = append(all, figure{Text: " "})
		}
		all = append(all, figure{word, word != "" && word[0] >= '0' && word[0] <= '9'})
	}
	return all
}

// speedChart is how many requests somebody gets who always asks as early as
// allowed, drawn in a box of chartWidth by chartHeight.
type speedChart struct {
	Points string // of a polyline
	DotX   int
	DotY   int
	Label  string // beside the dot
	Left   bool   // the label stands left of it
	Top    string // the count at the upper edge
	Ticks  []tick
	Text   string // the same for those who do not see it
}

type tick struct {
	X    int
	Text string
	Last bool
}

const (
	chartWidth  = 320
	chartHeight = 96
	mostPoints  = 160
)

// chartOf returns nil where there is nothing to draw: no rule, a rule that
// refuses everything, or one burst.
func chartOf(s rules.Stack) *speedChart {
	used := s.UsedUp()
	if len(used) == 0 {
		return nil
	}
	last := used[len(used)-1]
	for _, u := range used {
		if u.After > last.After {
			last = u
		}
	}
	if last.After == 0 {
		return nil
	}
	span := niceSpan(last.After * 3 / 2)
	limit := last.Rule.Limit
	x := func(d time.Duration) int { return int(int64(chartWidth) * int64(d) / int64(span)) }
	y := func(n int) int { return chartHeight - (chartHeight-12)*n/limit }
	c := &speedChart{
		DotX: x(last.After), DotY: y(limit), Top: number(int64(limit)),
		Label: windowName(last.Rule.Window) + " used up, " + duration(last.After),
	}
	c.Left = c.DotX > chartWidth/2
	c.Points = walk(s, limit, x, y)
	for i := range 5 {
		at := span * time.Duration(i) / 4
		c.Ticks = append(c.Ticks, tick{x(at), tickText(at), i == 4})
	}
	c.Text = fmt.Sprintf("At full speed %s requests are allowed within %s.", number(int64(limit)), duration(last.After))
	return c
}

// walk draws the steps of the first limit requests and the rest flat.
func walk(s rules.Stack, limit int, x func(time.Duration) int, y func(int) int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "0,%d", y(0))
	every := max(1, limit/mostPoints)
	n, lastX := 0, 0
	for at := range s.FullSpeed() {
		if n++; n > limit {
			break
		}
		if now := x(at); now > lastX && (n%every == 1 || every == 1) {
			fmt.Fprintf(&b, " %d,%d", now, y(n-1))
			lastX = now
		}
		if n%every == 0 || n == limit {
			fmt.Fprintf(&b, " %d,%d", x(at), y(n))
			lastX = x(at)
		}
	}
	fmt.Fprintf(&b, " %d,%d", chartWidth, y(limit))
	return b.String()
}

// niceSpan rounds a span up so that its quarters read well.
func niceSpan(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, n := range []int64{4, 8, 12, 20, 40, 60, 120} {
			if span := time.Duration(n) * unit; span >= d && (span < time.Hour || unit >= time.Minute) {
				return span
			}
		}
	}
	return d
}

func tickText(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return duration(d)
}

// windowName names what a window's rule grants: "day", "10 seconds".
func windowName(w time.Duration) string {
	return strings.TrimPrefix(windowWords(w), "1 ")
}
