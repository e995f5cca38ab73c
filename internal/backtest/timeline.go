package backtest

import "time"

// maxPoints is how many points a timeline has at most.
const maxPoints = 240

// Timeline is the requests over the time, in parts of equal length.
type Timeline struct {
	Start  time.Time `json:"start"`
	Step   float64   `json:"step_seconds"`
	Points []Point   `json:"points"`
}

// Point is one part of a timeline.
type Point struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
	// RefusedAgainst is by the second plan, 0 without one.
	RefusedAgainst int64 `json:"refused_against,omitzero"`
}

// timeline counts requests in the order of their times in bounded memory: when there are
// too many points, each two become one.
type timeline struct {
	start, step int64 // Unix milliseconds; milliseconds
	points      []Point
}

func (t *timeline) count(at int64, refused, refusedAgainst bool) {
	if t.step == 0 {
		t.step = time.Second.Milliseconds()
		t.start = at - at%t.step
	}
	for (at-t.start)/t.step >= maxPoints {
		t.halve()
	}
	i := int((at - t.start) / t.step)
	for len(t.points) <= i {
		t.points = append(t.points, Point{})
	}
	p := &t.points[i]
	p.Requests++
	if refused {
		p.Refused++
	}
	if refusedAgainst {
		p.RefusedAgainst++
	}
}

func (t *timeline) halve() {
	for i := range t.points {
		p := t.points[i]
		if i%2 == 0 {
			t.points[i/2] = p
			continue
		}
		sum := &t.points[i/2]
		sum.Requests += p.Requests
		sum.Refused += p.Refused
		sum.RefusedAgainst += p.RefusedAgainst
	}
	t.points = t.points[:(len(t.points)+1)/2]
	t.step *= 2
}

func (t *timeline) result() *Timeline {
	if len(t.points) == 0 {
		return nil
	}
	return &Timeline{Start: timeOf(t.start), Step: float64(t.step) / 1000, Points: t.points}
}
