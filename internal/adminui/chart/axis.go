package chart

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/phrase"
)

func verb(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

func coordinate(f float64) string { return strconv.FormatFloat(f, 'f', 4, 64) }

func Percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 3, 64) + "%" }

// roundTop returns the round number at the top of an axis and the distance of its three or four
// lines.
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
	text := strings.TrimRight(strconv.FormatFloat(value, 'f', 3, 64), "0")
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil { // no count is so large
		return text
	}
	if fraction == "" {
		return phrase.Number(n)
	}
	return phrase.Number(n) + "." + fraction
}

// tickSteps are the possible distances of the labels below a chart.
var tickSteps = []time.Duration{
	time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 56 * 24 * time.Hour,
}

// ticksOf returns about six labels for a time range, none behind the part last of it.
func ticksOf(s format.TimeRange, last float64) []timeTick {
	length := s.Length()
	each := tickSteps[len(tickSteps)-1]
	if i := slices.IndexFunc(tickSteps, func(d time.Duration) bool { return length/d <= 8 }); i >= 0 {
		each = tickSteps[i]
	}
	label := format.Clock
	switch {
	case each >= 24*time.Hour:
		label = format.Day
	case length > 26*time.Hour:
		label = format.Weekday
	}
	var all []timeTick
	for at := s.From.Truncate(each).Add(each); !at.After(s.To); at = at.Add(each) {
		x := float64(at.Sub(s.From)) / float64(length)
		if x < 0.03 || x > last {
			continue
		}
		all = append(all, timeTick{X: Percent(x), Label: label(at), Minor: len(all)%2 == 1})
	}
	return all
}

type gridLine struct {
	Y     string // percent
	Label string
}

type timeTick struct {
	X     string // percent
	Label format.Moment
	Minor bool // hidden in narrow windows
	End   string
}

// Step returns the length of the parts of a chart: whole minutes for about a hundred parts, or
// whole hours if there would be too many minutes to read.
func Step(length time.Duration) time.Duration {
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
