package format

import (
	"net/url"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// TimeRange is the time range of a monitoring page: a duration up to now, or a fixed range. It
// is part of the page's address, and links between these pages keep it.
type TimeRange struct {
	From, To time.Time
	Last     time.Duration // 0: From and To are fixed
}

// InstantField is the format of an instant in addresses and date fields, in UTC.
const InstantField = "2006-01-02T15:04"

const (
	DefaultTimeRange = time.Hour
	MaxTimeRange     = 400 * 24 * time.Hour
)

// TimeRanges are the choices of the picker.
var TimeRanges = []struct {
	Length     time.Duration
	Text, Name string
}{
	{5 * time.Minute, "5m", "5 min"}, {15 * time.Minute, "15m", "15 min"}, {time.Hour, "1h", "1 h"},
	{24 * time.Hour, "24h", "24 h"}, {7 * 24 * time.Hour, "7d", "7 d"},
}

// ParseTimeRange parses the time range in the parameters of an address: last, or since with an
// optional until. If all are "", it is the last hour.
func ParseTimeRange(last, since, until string, now time.Time) (TimeRange, error) {
	now = now.UTC()
	s := TimeRange{From: now.Add(-DefaultTimeRange), To: now, Last: DefaultTimeRange}
	if since != "" {
		return FixedTimeRange(since, until, now)
	}
	if last != "" {
		length, err := rules.ParseDuration(last)
		if err != nil || length < time.Minute || length > MaxTimeRange {
			return s, fault.Field("last", "must be a duration from 1m to 400d, for example 24h")
		}
		s.Last, s.From = length, now.Add(-length)
	}
	return s, nil
}

func FixedTimeRange(since, until string, now time.Time) (TimeRange, error) {
	s := TimeRange{To: now}
	var err error
	if s.From, err = parseInstant(since); err != nil {
		return s, fault.Field("since", "must be a day and a time, UTC, such as 2026-11-20T13:41")
	}
	if until != "" {
		if s.To, err = parseInstant(until); err != nil {
			return s, fault.Field("until", "must be a day and a time, UTC, such as 2026-11-20T14:03")
		}
	}
	switch {
	case !s.From.Before(s.To):
		return s, fault.Field("until", "The end of the time range must be after its beginning.")
	case s.To.Sub(s.From) > MaxTimeRange:
		return s, fault.Field("since", "The time range is longer than 400 days.")
	}
	return s, nil
}

func parseInstant(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	return time.Parse(InstantField, text)
}

// Params returns the address parameters of s, none for the default range.
func (s TimeRange) Params() url.Values {
	switch {
	case s.Last == 0:
		return url.Values{"since": {s.From.Format(InstantField)}, "until": {s.To.Format(InstantField)}}
	case s.Last == DefaultTimeRange:
		return nil
	}
	return url.Values{"last": {s.text()}}
}

func (s TimeRange) text() string {
	for _, l := range TimeRanges {
		if l.Length == s.Last {
			return l.Text
		}
	}
	return rules.FormatDuration(s.Last)
}

// Name returns s for use in a sentence: "the last hour", "13:41 to 14:03 UTC".
func (s TimeRange) Name() Sentence {
	switch s.Last {
	case 0:
		return s.Between()
	case time.Hour:
		return Sentence{Plain("the last hour")}
	case 24 * time.Hour:
		return Sentence{Plain("the last day")}
	}
	return Sentence{Plain("the last " + phrase.Duration(s.Last))}
}

// Head returns s as the heading of a column.
func (s TimeRange) Head() string {
	switch s.Last {
	case 0:
		return "Trend"
	case time.Hour:
		return "Last hour"
	case 24 * time.Hour:
		return "Last day"
	}
	return "Last " + phrase.Duration(s.Last)
}

// Between returns both ends: "13:03 to 14:03 UTC", with their days if these differ.
func (s TimeRange) Between() Sentence {
	ends := s.Ends()
	ends[2] = ends[2].WithZone()
	return ends
}

// Ends is Between without the zone, for narrow places.
func (s TimeRange) Ends() Sentence {
	return Sentence{Short(s.From, s.To).relativeTo(s.To), Plain(" to "), Short(s.To, s.To).relativeTo(s.To)}
}

// Length returns the duration of s.
func (s TimeRange) Length() time.Duration { return s.To.Sub(s.From) }
