package chart_test

import (
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
