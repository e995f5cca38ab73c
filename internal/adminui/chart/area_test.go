package chart_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/offences"
)

// Challenged requests are a series of their own, between those that were limited and those that were blocked.
func TestAreaDrawsChallengedRequests(t *testing.T) {
	from := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	draw := func(p offences.Interval) *chart.Area {
		p.At, p.Seconds = from, 60
		return chart.DrawArea([]offences.Interval{p}, format.TimeRange{From: from, To: from.Add(time.Minute)}, time.Minute)
	}
	with, without := draw(offences.Interval{Allowed: 60, Limited: 60, Challenged: 60, Blocked: 60}), draw(offences.Interval{Allowed: 60, Limited: 60, Blocked: 120})
	if !with.HasChallenged || without.HasChallenged {
		t.Errorf("got %t with challenged requests, %t without", with.HasChallenged, without.HasChallenged)
	}
	if with.Challenged == without.Challenged || with.Limited != without.Limited || with.ChallengedEdge != without.BlockedEdge || with.BlockedEdge == without.BlockedEdge {
		t.Errorf("got %+v with challenged requests, %+v without", with, without)
	}
}

// Of an hour only its sum is known, so that it is level and ends where the next begins; minutes are joined.
func TestHoursAreDrawnAsSteps(t *testing.T) {
	begin := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	draw := func(step time.Duration) *chart.Area {
		var points []offences.Interval
		for i, allowed := range []int64{10, 40} {
			points = append(points, offences.Interval{At: begin.Add(time.Duration(i) * step), Allowed: allowed * int64(step/time.Second), Seconds: step.Seconds()})
		}
		return chart.DrawArea(points, format.TimeRange{From: begin, To: begin.Add(2 * step)}, step)
	}
	hours, minutes := draw(time.Hour), draw(time.Minute)
	if label := hours.Rules[len(hours.Rules)-1].Label; !strings.HasSuffix(label, "/s") {
		t.Errorf("the axis ends with %q, which has no unit", label)
	}
	for name, c := range map[string]struct {
		area *chart.Area
		want []string // the upper corners, from left to right
	}{"hours": {hours, []string{"0.0000", "0.5000", "0.5000", "1.0000"}}, "minutes": {minutes, []string{"0.0000", "0.2500", "0.7500", "1.0000"}}} {
		corners := strings.FieldsFunc(strings.TrimSuffix(c.area.Allowed, "Z"), func(r rune) bool { return r == 'M' || r == 'L' })
		var xs []string
		for _, corner := range corners[:len(corners)/2] {
			x, _, _ := strings.Cut(corner, " ")
			xs = append(xs, x)
		}
		if !slices.Equal(xs, c.want) {
			t.Errorf("the area of %s is %q with corners at %q, want %q", name, c.area.Allowed, xs, c.want)
		}
	}
}
