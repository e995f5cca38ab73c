package adminui

import (
	"net/url"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
)

// span is the stretch of time that the pages about what happened show: the last
// so long, or a fixed one. It stands in the address, and every link between
// these pages keeps it.
type span struct {
	From, To time.Time
	Last     time.Duration // 0: From and To are fixed
}

// instantField is how an address and a field of dates write an instant, UTC.
const instantField = "2006-01-02T15:04"

const (
	defaultSpan = time.Hour
	longestSpan = 400 * 24 * time.Hour
)

// spanLengths are those that the picker offers.
var spanLengths = []struct {
	Length     time.Duration
	Text, Name string
}{
	{5 * time.Minute, "5m", "5 min"}, {15 * time.Minute, "15m", "15 min"}, {time.Hour, "1h", "1 h"},
	{24 * time.Hour, "24h", "24 h"}, {7 * 24 * time.Hour, "7d", "7 d"},
}

// spanOf returns the span that an address names: ?last=24h, or ?since= and
// perhaps ?until=; the last hour where it names none.
func spanOf(c *httpserver.Call, now time.Time) (span, error) {
	now = now.UTC()
	s := span{From: now.Add(-defaultSpan), To: now, Last: defaultSpan}
	if since := c.Query("since"); since != "" {
		return fixedSpan(since, c.Query("until"), now)
	}
	if text := c.Query("last"); text != "" {
		last, err := rules.ParseDuration(text)
		if err != nil || last < time.Minute || last > longestSpan {
			return s, fault.Field("last", "must be a length of time from 1m to 400d, for example 24h")
		}
		s.Last, s.From = last, now.Add(-last)
	}
	return s, nil
}

func fixedSpan(since, until string, now time.Time) (span, error) {
	s := span{To: now}
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
		return s, fault.Field("until", "must lie after since")
	case s.To.Sub(s.From) > longestSpan:
		return s, fault.Field("since", "lies more than 400 days before until")
	}
	return s, nil
}

func parseInstant(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	return time.Parse(instantField, text)
}

// Params returns the parameters that name s in an address, none for the span
// that pages have by themselves.
func (s span) Params() url.Values {
	switch {
	case s.Last == 0:
		return url.Values{"since": {s.From.Format(instantField)}, "until": {s.To.Format(instantField)}}
	case s.Last == defaultSpan:
		return nil
	}
	return url.Values{"last": {s.text()}}
}

func (s span) text() string {
	for _, l := range spanLengths {
		if l.Length == s.Last {
			return l.Text
		}
	}
	return rules.FormatDuration(s.Last)
}

// Name returns s as a part of a sentence: "the last hour", "13:41 to 14:03".
func (s span) Name() string {
	switch s.Last {
	case 0:
		return s.Between()
	case time.Hour:
		return "the last hour"
	case 24 * time.Hour:
		return "the last day"
	}
	return "the last " + duration(s.Last)
}

// Head returns s as the head of a column that draws it.
func (s span) Head() string {
	switch s.Last {
	case 0:
		return "Trend"
	case time.Hour:
		return "Last hour"
	case 24 * time.Hour:
		return "Last day"
	}
	return "Last " + duration(s.Last)
}

// Between returns the two ends: "13:03 and 14:03", with days where they differ.
func (s span) Between() string { return shortTime(s.From, s.To) + " to " + shortTime(s.To, s.To) }

// Length returns how long s is.
func (s span) Length() time.Duration { return s.To.Sub(s.From) }

// spanChoice is one of the spans that the picker offers.
type spanChoice struct {
	Name, Address string
	Current       bool
	Wide          bool // left out where there is little room
}

// watch is what the pages about what happened have in common.
type watch struct {
	Frame
	Span  span
	Path  string // of this page
	Query query  // of this page's address, without the span
	// Refresh is how often the page brings itself up to date, in milliseconds;
	// 0 for never: a span that is over stays as it is.
	Refresh int
}

// watching returns what a page about what happened begins with. params are
// those of its address beside the span.
func (s *site) watching(c *httpserver.Call, title, path string, params ...string) (watch, error) {
	q, err := readQuery(c, params...)
	if err != nil {
		return watch{}, err
	}
	shown, err := spanOf(c, s.now())
	if err != nil {
		return watch{}, err
	}
	w := watch{Frame: s.frame(c, title, path), Span: shown, Path: path, Query: q}
	if shown.Last != 0 {
		w.Refresh = 5000
	}
	return w, nil
}

// Link returns the address of a page with the parameters given, in pairs, and
// with the span.
func (w *watch) Link(path string, pairs ...string) string { return spanned(path, w.Span, pairs...) }

func spanned(path string, s span, pairs ...string) string {
	values := url.Values{}
	for name, all := range s.Params() {
		values[name] = all
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// KeyLink returns the address of a key's page.
func (w *watch) KeyLink(key string) string { return w.Link(KeyPath, "key", key) }

// With returns this page's address with some parameters changed, from its first
// page on; an empty value leaves one out.
func (w *watch) With(pairs ...string) string { return w.with(w.Span, pairs...) }

func (w *watch) with(s span, pairs ...string) string {
	values := url.Values{}
	for name, all := range w.Query {
		values[name] = all
	}
	for name, all := range s.Params() {
		values[name] = all
	}
	for _, gone := range []string{"cursor", "at", "done", "ids"} {
		values.Del(gone)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Del(pairs[i])
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return w.Path
	}
	return w.Path + "?" + values.Encode()
}

// Fields returns this page's parameters, and its span's, as hidden fields but
// those named: for forms that send a page's address.
func (w *watch) Fields(without ...string) []Field {
	var all []Field
	values := url.Values{}
	for name, v := range w.Query {
		values[name] = v
	}
	for name, v := range w.Span.Params() {
		values[name] = v
	}
	for _, name := range append(without, "cursor", "at", "done", "ids") {
		values.Del(name)
	}
	for _, name := range sortedNames(values) {
		all = append(all, Field{name, values.Get(name)})
	}
	return all
}

// SpanChoices returns what the span's picker offers.
func (w *watch) SpanChoices() []spanChoice {
	var all []spanChoice
	for _, l := range spanLengths {
		s := span{Last: l.Length}
		all = append(all, spanChoice{
			Name: l.Name, Address: w.with(s), Current: w.Span.Last == l.Length, Wide: l.Length < 15*time.Minute,
		})
	}
	return all
}

// Custom reports whether the span is none of those that the picker names.
func (w *watch) Custom() bool {
	for _, l := range spanLengths {
		if w.Span.Last == l.Length {
			return false
		}
	}
	return true
}

// SinceField and UntilField are the ends as fields of dates write them.
func (w *watch) SinceField() string { return w.Span.From.Format(instantField) }

// UntilField is the end of the span.
func (w *watch) UntilField() string { return w.Span.To.Format(instantField) }
