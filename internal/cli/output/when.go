package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Duration formats a duration, rounded to two units: "350 ms", "12.4 s", "3 min 20 s",
// "3 h 52 min", "2 d 4 h".
func Duration(d time.Duration) string {
	d = d.Abs()
	const day = 24 * time.Hour
	switch seconds := d.Round(100 * time.Millisecond); {
	case d.Round(time.Millisecond) < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case seconds < time.Minute:
		return strings.TrimSuffix(strconv.FormatFloat(seconds.Seconds(), 'f', 1, 64), ".0") + " s"
	case d.Round(time.Second) < time.Hour:
		return two(d.Round(time.Second), time.Minute, "min", time.Second, "s")
	case d.Round(time.Minute) < day:
		return two(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
	default:
		return two(d.Round(time.Hour), day, "d", time.Hour, "h")
	}
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// When formats a time exactly and relative to now: "17:55 UTC, in 3 h 52 min". A time
// within a minute has tenths of seconds, one on another day the date.
func When(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	apart := t.Sub(now)
	var layout string
	switch sameDay := t.Format(time.DateOnly) == now.Format(time.DateOnly); {
	case apart.Abs() < time.Minute:
		layout = "15:04:05.0 UTC"
	case sameDay:
		layout = "15:04 UTC"
	case t.Year() == now.Year():
		layout = "2 Jan 15:04 UTC"
	default:
		layout = "2 Jan 2006 15:04 UTC"
	}
	return t.Format(layout) + ", " + Relative(t, now)
}

// Relative formats a time relative to now: "in 3 h 52 min", "2 d ago".
func Relative(t, now time.Time) string {
	switch apart := t.Sub(now); {
	case apart > 0:
		return "in " + Duration(apart)
	case apart > -time.Millisecond:
		return "now"
	default:
		return Duration(apart) + " ago"
	}
}

// Amount formats a count with its noun: "1 key", "1,284 keys".
func Amount[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}
