package format

import (
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/phrase"
)

// Moment is an instant for the template "at": a text in UTC, and what times.js needs to write
// it in the browser's time zone. Without ISO it is plain text.
type Moment struct {
	Text string // "15:04"
	Full string // Fri 20 Nov 2026, 17:55:12 UTC, for the title
	ISO  string // with milliseconds
	// Style is the format of Text: one of the styles of times.js.
	Style string
	Now   string // the instant to which Text is relative, as ISO; "" for the present
	Zoned bool   // Text ends with its zone
}

// Sentence is a text with instants in it.
type Sentence []Moment

// Plain returns text as a Moment without an instant.
func Plain(text string) Moment { return Moment{Text: text} }

// String returns s in UTC.
func (s Sentence) String() string {
	var b strings.Builder
	for _, m := range s {
		b.WriteString(m.Text)
	}
	return b.String()
}

const isoMilli = "2006-01-02T15:04:05.000Z07:00"

func momentOf(t time.Time, style, text string) Moment {
	return Moment{Text: text, Full: t.UTC().Format(fullTime), ISO: t.UTC().Format(isoMilli), Style: style}
}

// Clock, Second, Milli, DayMilli and DateMilli format an instant with a fixed precision.
func Clock(t time.Time) Moment  { return momentOf(t, "clock", t.UTC().Format("15:04")) }
func Second(t time.Time) Moment { return momentOf(t, "second", t.UTC().Format("15:04:05")) }
func Milli(t time.Time) Moment  { return momentOf(t, "milli", t.UTC().Format("15:04:05.000")) }
func DayMilli(t time.Time) Moment {
	return momentOf(t, "day-milli", t.UTC().Format("2 Jan, 15:04:05.000"))
}
func DateMilli(t time.Time) Moment {
	return momentOf(t, "date-milli", t.UTC().Format("2 Jan 2006, 15:04:05.000"))
}

// Weekday and Day label an axis that is longer than a day.
func Weekday(t time.Time) Moment { return momentOf(t, "weekday", t.UTC().Format("Mon 15:04")) }
func Day(t time.Time) Moment     { return momentOf(t, "day", t.UTC().Format("2 Jan")) }

// Short is ShortTime as a Moment.
func Short(t, now time.Time) Moment { return momentOf(t, "short", ShortTime(t.UTC(), now.UTC())) }

// WithZone returns m followed by its zone.
func (m Moment) WithZone() Moment {
	m.Text, m.Zoned = m.Text+" UTC", true
	return m
}

// relativeTo makes times.js compare m with now instead of the present.
func (m Moment) relativeTo(now time.Time) Moment {
	m.Now = now.UTC().Format(isoMilli)
	return m
}

// TimeView is an instant for the template "when".
type TimeView struct {
	Short    string // 17:55, or with the day if it differs: "1 Dec, 00:00"
	Relative string // "in 3 h 52 min", "2 min ago"
	Full     string // Fri 20 Nov 2026, 17:55:12 UTC
	ISO      string
	Never    bool
}

const fullTime = "Mon 2 Jan 2006, 15:04:05 UTC"

// When returns the view of an instant relative to now; the zero time means never.
func When(t, now time.Time) TimeView {
	if t.IsZero() {
		return TimeView{Never: true}
	}
	t, now = t.UTC(), now.UTC()
	v := TimeView{Short: ShortTime(t, now), Full: t.Format(fullTime), ISO: t.Format(time.RFC3339)}
	switch d := t.Sub(now); {
	case d > 0:
		v.Relative = "in " + phrase.Duration(d)
	case d > -time.Second:
		v.Relative = "now"
	default:
		v.Relative = phrase.Duration(d) + " ago"
	}
	return v
}

// ShortTime formats a time without the parts that it shares with now: the day, or the year.
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

// Instant formats a near time to a tenth of a second, and adds the day if it differs.
func Instant(t, now time.Time) Moment {
	t, now = t.UTC(), now.UTC()
	text := ShortTime(t, now)
	switch away := t.Sub(now).Abs(); {
	case away < 10*time.Minute:
		text = t.Format("15:04:05") + "." + strconv.Itoa(t.Nanosecond()/100_000_000)
	case dayOf(t) == dayOf(now):
		text = t.Format("15:04:05")
	}
	return momentOf(t, "instant", text).relativeTo(now)
}

const DateField = "2006-01-02 15:04"

func DateOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(DateField)
}
