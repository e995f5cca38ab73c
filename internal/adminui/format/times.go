package format

import (
	"strconv"
	"time"
)

// TimeView is an instant as the template "when" draws it.
type TimeView struct {
	Short    string // 17:55, or with the day where that is another: "1 Dec, 00:00"
	Relative string // "in 3 h 52 min", "2 min ago"
	Full     string // Fri 20 Nov 2026, 17:55:12 UTC
	ISO      string
	Never    bool
}

const fullTime = "Mon 2 Jan 2006, 15:04:05 UTC"

// When returns the view of an instant as of now; the zero one never comes.
func When(t, now time.Time) TimeView {
	if t.IsZero() {
		return TimeView{Never: true}
	}
	t, now = t.UTC(), now.UTC()
	v := TimeView{Short: ShortTime(t, now), Full: t.Format(fullTime), ISO: t.Format(time.RFC3339)}
	switch d := t.Sub(now); {
	case d > 0:
		v.Relative = "in " + Duration(d)
	case d > -time.Second:
		v.Relative = "now"
	default:
		v.Relative = Duration(d) + " ago"
	}
	return v
}

// ShortTime leaves out what now has too: the day, or the year.
func ShortTime(t, now time.Time) string {
	switch days := dayOf(t).Sub(dayOf(now)) / (24 * time.Hour); {
	case days == 0:
		return t.Format("15:04")
	case days > -7 && days < 0:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan, 15:04")
	}
	return t.Format("2 Jan 2006, 15:04")
}

func dayOf(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }

// Instant writes a time to a tenth of a second where it is near, and with its
// day where that is another.
func Instant(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch away := t.Sub(now).Abs(); {
	case away < 10*time.Minute:
		return t.Format("15:04:05") + "." + strconv.Itoa(t.Nanosecond()/100_000_000)
	case dayOf(t) == dayOf(now):
		return t.Format("15:04:05")
	}
	return ShortTime(t, now)
}

const DateField = "2006-01-02 15:04"

func DateOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(DateField)
}
