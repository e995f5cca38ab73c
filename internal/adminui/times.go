package adminui

import "time"

// timeView is an instant as the template "when" draws it.
type timeView struct {
	Short    string // 17:55, or with the day where that is another: "1 Dec, 00:00"
	Relative string // "in 3 h 52 min", "2 min ago"
	Full     string // Fri 20 Nov 2026, 17:55:12 UTC
	ISO      string
	Never    bool
}

const fullTime = "Mon 2 Jan 2006, 15:04:05 UTC"

// when returns the view of an instant as of now; the zero one never comes.
func when(t, now time.Time) timeView {
	if t.IsZero() {
		return timeView{Never: true}
	}
	t, now = t.UTC(), now.UTC()
	v := timeView{Short: shortTime(t, now), Full: t.Format(fullTime), ISO: t.Format(time.RFC3339)}
	switch d := t.Sub(now); {
	case d > 0:
		v.Relative = "in " + duration(d)
	case d > -time.Second:
		v.Relative = "now"
	default:
		v.Relative = duration(d) + " ago"
	}
	return v
}

// shortTime leaves out what now has too: the day, or the year.
func shortTime(t, now time.Time) string {
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
