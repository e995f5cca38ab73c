package algorithms

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // the zones, where the system has none
)

// The periods of the calendar.
const (
	CalendarDay   = "calendar-day"
	CalendarMonth = "calendar-month"
)

// CalendarLength returns how long a period of the calendar is at most, but for changes of the zone's
// clock, and 0 for an unknown period.
func CalendarLength(period string) time.Duration {
	switch period {
	case CalendarDay:
		return 24 * time.Hour
	case CalendarMonth:
		return 31 * 24 * time.Hour
	}
	return 0
}

// CalendarSlack is how much longer a period may be because the zone's clock changes, in milliseconds.
const CalendarSlack = int64(3 * time.Hour / time.Millisecond)

// Calendar divides time into the days or the months of a time zone. It is safe for concurrent use.
type Calendar struct {
	isMonth bool
	zone    *time.Location
	known   atomic.Pointer[calendarPeriod] // that of the last call
}

// calendarPeriod is one period, and the beginnings of those around it as Lua reads them.
type calendarPeriod struct {
	start, end int64
	starts     string
}

var calendars sync.Map // of calendarName to *Calendar

type calendarName struct{ period, zone string }

// CalendarOf returns the calendar of CalendarDay or CalendarMonth in a time zone by its name in the
// IANA database, "" for UTC. Equal calendars are the same. The error says what would be right.
func CalendarOf(period, zone string) (*Calendar, error) {
	name := calendarName{period, zone}
	if c, found := calendars.Load(name); found {
		return c.(*Calendar), nil
	}
	// A name that each machine reads by its own settings, or by another database than the usual one.
	if prefix, _, isBelow := strings.Cut(zone, "/"); slices.Contains([]string{"Local", "localtime", "posixrules", "Factory"}, zone) || isBelow && (prefix == "posix" || prefix == "right") {
		return nil, fmt.Errorf("must be the name of a time zone that is the same on every node, for example Europe/Berlin")
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("must be the name of a time zone, for example Europe/Berlin")
	}
	c, _ := calendars.LoadOrStore(name, &Calendar{isMonth: period == CalendarMonth, zone: location})
	return c.(*Calendar), nil
}

// Period returns when the period that contains a time begins and ends, in Unix milliseconds. The end
// belongs to the next one.
func (c *Calendar) Period(at int64) (start, end int64) {
	p := c.periodOf(at)
	return p.start, p.end
}

// Starts returns when the periods around a time begin, with commas between: the one before, its own, and
// the next two. So who uses them may have a clock that is a day off.
func (c *Calendar) Starts(at int64) string { return c.periodOf(at).starts }

func (c *Calendar) periodOf(at int64) *calendarPeriod {
	if p := c.known.Load(); p != nil && p.start <= at && at < p.end {
		return p
	}
	p := &calendarPeriod{}
	p.start, p.end = c.find(at)
	before, _ := c.find(p.start - 1)
	_, after := c.find(p.end)
	for i, start := range []int64{before, p.start, p.end, after} {
		if i > 0 {
			p.starts += ","
		}
		p.starts += strconv.FormatInt(start, 10)
	}
	c.known.Store(p)
	return p
}

func (c *Calendar) find(at int64) (start, end int64) {
	year, month, day := time.UnixMilli(at).In(c.zone).Date()
	next := func() {
		if c.isMonth {
			month++
		} else {
			day++
		}
	}
	if c.isMonth {
		day = 1
	}
	start = c.begin(year, month, day)
	next()
	// A clock that is set back across midnight repeats the end of a day. That belongs to the next one.
	for end = c.begin(year, month, day); end <= at; end = c.begin(year, month, day) {
		start = end
		next()
	}
	return start, end
}

// begin returns the first instant of a date, which may be out of range as for time.Date. Where the clock
// skips midnight, that is when it does so.
func (c *Calendar) begin(year int, month time.Month, day int) int64 {
	at := time.Date(year, month, day, 0, 0, 0, 0, c.zone)
	changed, changes := at.ZoneBounds()
	y, m, d := at.Date()
	if time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(time.Date(year, month, day, 0, 0, 0, 0, time.UTC)) {
		return changes.UnixMilli() // midnight is skipped, and at is before it
	}
	if !changed.IsZero() { // midnight may have come before, by the zone's earlier offset
		_, offset := changed.Add(-1).Zone()
		if first := time.Date(year, month, day, 0, 0, 0, 0, time.FixedZone("", offset)); first.Before(changed) {
			return first.UnixMilli()
		}
	}
	return at.UnixMilli()
}
