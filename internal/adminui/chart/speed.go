package chart

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// Speed is how many requests a client gets that always sends as early as allowed, drawn in a
// box of chartWidth by chartHeight.
type Speed struct {
	Points string // of a polyline
	DotX   int
	DotY   int
	Label  string // below the line, starting at the dot
	AtEnd  bool   // the label ends at the right edge, because there is no room after the dot
	Top    string // the count at the upper edge
	Ticks  []tick
	Text   string // the same as text, for screen readers
}

type tick struct {
	X    int
	Text string
	Last bool
}

const (
	chartWidth  = 320
	chartHeight = 96
	maxPoints   = 160
)

// DrawSpeed returns nil if there is nothing to draw: no rule, a rule that refuses everything,
// or one burst.
func DrawSpeed(s rules.Stack) *Speed {
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
	c := &Speed{
		DotX: x(last.After), DotY: y(limit), Top: phrase.Number(int64(limit)),
		Label: format.WindowName(last.Rule.Window) + " used up, " + phrase.Duration(last.After),
	}
	c.AtEnd = c.DotX > chartWidth/2
	c.Points = walkSteps(s, limit, x, y)
	for i := range 5 {
		at := span * time.Duration(i) / 4
		c.Ticks = append(c.Ticks, tick{x(at), tickText(at), i == 4})
	}
	c.Text = fmt.Sprintf("At full speed %s requests are allowed within %s.", phrase.Number(int64(limit)), phrase.Duration(last.After))
	return c
}

// walkSteps draws a step for each of the first limit requests, and then a flat line.
func walkSteps(s rules.Stack, limit int, x func(time.Duration) int, y func(int) int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "0,%d", y(0))
	every := max(1, limit/maxPoints)
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

// niceSpan rounds a span up so that its quarters are round.
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
	return phrase.Duration(d)
}
