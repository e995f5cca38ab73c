package algorithms_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
)

// Zones whose clocks change at midnight, around it, by half an hour, by a whole day, and never.
var calendarZones = []string{
	"", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo", "America/Goose_Bay", "Australia/Lord_Howe",
	"Pacific/Apia", "Asia/Kolkata", "America/Asuncion", "Pacific/Kiritimati",
}

// Periods follow each other without a gap, each time is in its own, and a period begins when its date does.
func TestPeriodsFollowTheCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(calendarZones).Draw(t, "zone")
		period := rapid.SampledFrom([]string{algorithms.CalendarDay, algorithms.CalendarMonth}).Draw(t, "period")
		c, err := algorithms.CalendarOf(period, zone)
		if err != nil {
			t.Fatal(err)
		}
		location, _ := time.LoadLocation(zone)
		at := time.Date(rapid.IntRange(1985, 2040).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 31).Draw(t, "day"), 0, 0, 0, 0, location).
			Add(time.Duration(rapid.Int64Range(-int64(3*time.Hour), int64(27*time.Hour)).Draw(t, "after"))).UnixMilli()
		start, end := c.Period(at)
		if start > at || at >= end || end-start > algorithms.CalendarLength(period).Milliseconds()+3*3_600_000 {
			t.Fatalf("%d is not in its period %d to %d", at, start, end)
		}
		if next, _ := c.Period(end); next != end {
			t.Fatalf("the period after %d begins at %d", end, next)
		}
		if _, last := c.Period(start - 1); last != start {
			t.Fatalf("the period before %d ends at %d", start, last)
		}
		date := func(at int64) int {
			local := time.UnixMilli(at).In(location)
			if period == algorithms.CalendarMonth {
				return local.Year()*12 + int(local.Month())
			}
			return local.Year()*1000 + local.YearDay()
		}
		if date(start-1) >= date(start) {
			t.Fatalf("a period begins at %s, within a date", time.UnixMilli(start).In(location))
		}
	})
}

func TestMonthsBeginAtLocalMidnight(t *testing.T) {
	c, err := algorithms.CalendarOf(algorithms.CalendarMonth, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	start, end := c.Period(time.Date(2026, 3, 31, 21, 59, 0, 0, time.UTC).UnixMilli())
	if got, want := [2]int64{start, end}, [2]int64{time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC).UnixMilli(), time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC).UnixMilli()}; got != want {
		t.Errorf("March is %v, want %v", got, want)
	}
	for _, zone := range []string{"Local", "Mars/Base", "../x", "Europe/Berlin ", "localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin", "Factory"} {
		if _, err := algorithms.CalendarOf(algorithms.CalendarDay, zone); err == nil {
			t.Errorf("the time zone %q is accepted", zone)
		}
	}
}

// Days last as long as the zone's clocks say: an hour less or more, or half an hour.
func TestDaysHaveTheHoursOfTheirZone(t *testing.T) {
	for _, c := range []struct {
		zone   string
		date   time.Time
		length time.Duration
	}{
		{"Europe/Berlin", time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC), 23 * time.Hour},
		{"Europe/Berlin", time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC), 25 * time.Hour},
		{"Europe/Berlin", time.Date(2026, 10, 26, 12, 0, 0, 0, time.UTC), 24 * time.Hour},
		{"Australia/Lord_Howe", time.Date(2026, 4, 5, 3, 0, 0, 0, time.UTC), 24*time.Hour + 30*time.Minute},
		{"Australia/Lord_Howe", time.Date(2026, 10, 4, 3, 0, 0, 0, time.UTC), 23*time.Hour + 30*time.Minute},
		{"Asia/Beirut", time.Date(2026, 3, 29, 9, 0, 0, 0, time.UTC), 23 * time.Hour},       // skips midnight
		{"America/Havana", time.Date(2026, 11, 1, 18, 0, 0, 0, time.UTC), 25 * time.Hour},   // repeats the hour after midnight
		{"Asia/Kolkata", time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC), 24 * time.Hour},     // never changes
		{"America/New_York", time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), 25 * time.Hour}, // and so does the month below
	} {
		day, err := algorithms.CalendarOf(algorithms.CalendarDay, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		start, end := day.Period(c.date.UnixMilli())
		if got := time.Duration(end-start) * time.Millisecond; got != c.length {
			t.Errorf("the day of %s in %s has %s, want %s", c.date, c.zone, got, c.length)
		}
		rule := algorithms.Rule{Limit: 2, Window: 27 * 3_600_000, Calendar: day}
		stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), []algorithms.Rule{rule})
		var state algorithms.State
		for _, at := range []int64{start - 1, start, end - 1} { // the first is of the day before
			if !stack.Decide(&state, algorithms.Query{Now: at, Cost: 1}, nil).Allowed {
				t.Errorf("%s, %s: refused at %s of the day", c.zone, c.date, time.Duration(at-start)*time.Millisecond)
			}
		}
		if got := stack.Decide(&state, algorithms.Query{Now: end - 1, Cost: 1}, nil); got.Allowed || got.RetryAt != end {
			t.Errorf("%s, %s: a full day: %+v, want a wait until %d", c.zone, c.date, got, end)
		}
		if !stack.Decide(&state, algorithms.Query{Now: end, Cost: 2}, nil).Allowed {
			t.Errorf("%s, %s: the next day is refused", c.zone, c.date)
		}
	}
	month, err := algorithms.CalendarOf(algorithms.CalendarMonth, "America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	start, end := month.Period(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC).UnixMilli())
	if got, want := time.Duration(end-start)*time.Millisecond, 30*24*time.Hour+time.Hour; got != want {
		t.Errorf("November has %s, want %s", got, want)
	}
}

// A rule of the calendar grants its whole limit at the boundary, refuses until then, and merges no amounts
// across it, beside a sliding window.
func TestACalendarMonthBeginsAgain(t *testing.T) {
	month, err := algorithms.CalendarOf(algorithms.CalendarMonth, "America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	_, boundary := month.Period(morning)
	rule := algorithms.Rule{Limit: 100_000, Window: 31*86_400_000 + 3*3_600_000, Calendar: month}
	stack := algorithms.NewStack(algorithms.ByName(algorithms.AmountLog), []algorithms.Rule{rule})
	var state algorithms.State
	for i := range int64(4_000) { // more than the log keeps apart
		if !stack.Decide(&state, algorithms.Query{Now: boundary - 4_000_000 + i*1_000, Cost: 25}, nil).Allowed {
			t.Fatalf("request %d is refused", i)
		}
	}
	full := stack.Decide(&state, algorithms.Query{Now: boundary - 1, Cost: 1}, nil)
	if full.Allowed || full.RetryAt != boundary {
		t.Fatalf("at the end of the month: %+v, want a wait until %d", full, boundary)
	}
	for i := range int64(4_000) {
		if got := stack.Decide(&state, algorithms.Query{Now: boundary + i, Cost: 25}, nil); !got.Allowed {
			t.Fatalf("request %d of the next month: %+v", i, got)
		}
	}
	_, next := month.Period(boundary)
	if got := stack.Decide(&state, algorithms.Query{Now: boundary + 5_000, Cost: 1}, nil); got.RetryAt != next {
		t.Errorf("the next month is full: %+v, want a wait until %d", got, next)
	}
	// A clock that steps back within the month moves nothing out of it.
	if room := stack.Room(&state, boundary+1); room != 0 {
		t.Errorf("after the clock stepped back %d remain", room)
	}
}
