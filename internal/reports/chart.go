package reports

import (
	"fmt"
	"strings"
	"time"
)

// chart is the traffic as stacked areas, in the coordinates of its drawing.
type chart struct {
	Width, Height             int
	Allowed, Limited, Blocked string // outlines, from below
	Top                       int64  // the value at the upper edge
	Marks                     []mark
	Sentence                  string // for those who cannot see it
}

type mark struct {
	X    int
	Text string
}

const (
	chartWidth  = 900
	chartHeight = 220
)

func chartOf(points []Point) chart {
	c := chart{Width: chartWidth, Height: chartHeight}
	if len(points) == 0 {
		return c
	}
	var most, allowed, refused int64
	for _, p := range points {
		most = max(most, p.Allowed+p.Limited+p.Blocked)
		allowed += p.Allowed
		refused += p.Limited + p.Blocked
	}
	c.Top = roundUp(most)
	c.Sentence = fmt.Sprintf("Of %s checks %s were refused; the busiest part had %s.", grouped(allowed+refused), grouped(refused), grouped(most))
	c.Allowed = c.area(points, func(p Point) (int64, int64) { return 0, p.Allowed })
	c.Limited = c.area(points, func(p Point) (int64, int64) { return p.Allowed, p.Allowed + p.Limited })
	c.Blocked = c.area(points, func(p Point) (int64, int64) {
		return p.Allowed + p.Limited, p.Allowed + p.Limited + p.Blocked
	})
	format := "15:04"
	if points[len(points)-1].At.Sub(points[0].At) > 48*time.Hour {
		format = "Mon 2"
	}
	for i := 0; i < len(points); i += max(1, len(points)/7) {
		c.Marks = append(c.Marks, mark{c.x(i, len(points)), points[i].At.UTC().Format(format)})
	}
	return c
}

func (c *chart) x(i, of int) int { return i * c.Width / max(1, of-1) }

func (c *chart) y(value int64) int { return c.Height - int(value*int64(c.Height)/max(1, c.Top)) }

// area outlines what lies between two values of each point.
func (c *chart) area(points []Point, between func(Point) (low, high int64)) string {
	var forth, back []string
	for i, p := range points {
		low, high := between(p)
		forth = append(forth, fmt.Sprintf("%d,%d", c.x(i, len(points)), c.y(high)))
		back = append([]string{fmt.Sprintf("%d,%d", c.x(i, len(points)), c.y(low))}, back...)
	}
	return strings.Join(append(forth, back...), " ")
}

// roundUp returns the next 1, 2 or 5 times a power of ten.
func roundUp(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, top := range []int64{unit, 2 * unit, 5 * unit} {
			if top >= n {
				return top
			}
		}
	}
}
