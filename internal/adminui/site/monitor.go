package site

import (
	"net/url"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/httpserver"
)

// rangeChoice is one time range in the picker.
type rangeChoice struct {
	Name, Address string
	Current       bool
	Wide          bool // hidden in narrow windows
}

// MonitorPage is shared by the monitoring pages.
type MonitorPage struct {
	Frame
	Range format.TimeRange
	Path  string // of this page
	Query Query  // parameters of this page, without the time range
	// Refresh is the interval at which the page refreshes itself, in milliseconds; 0 for never,
	// because a past time range does not change.
	Refresh int
}

// NewMonitorPage returns the shared part of a monitoring page. params are the parameters of its
// address without the time range.
func (s *Site) NewMonitorPage(c *httpserver.Call, title, path string, params ...string) (MonitorPage, error) {
	q, err := ReadQuery(c, params...)
	if err != nil {
		return MonitorPage{}, err
	}
	shown, err := RangeOf(c, s.Now())
	if err != nil {
		return MonitorPage{}, err
	}
	w := MonitorPage{Frame: s.NewFrame(c, title, path), Range: shown, Path: path, Query: q}
	if shown.Last != 0 {
		w.Refresh = 5000
	}
	return w, nil
}

// Link returns the address of a page with the time range and the given parameters, as pairs.
func (w *MonitorPage) Link(path string, pairs ...string) string {
	return WithRange(path, w.Range, pairs...)
}

func WithRange(path string, s format.TimeRange, pairs ...string) string {
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
func (w *MonitorPage) KeyLink(key string) string { return w.Link(KeyPath, "key", key) }

// BlockLink returns the address of the form that blocks a pattern, which is meant as it is written.
func (w *MonitorPage) BlockLink(pattern, reason string) string {
	return w.Link("/blocks/new", "pattern", pattern, "literal", "yes", "reason", reason)
}

// With returns this page's address with some parameters changed, at its first page; an empty
// value removes one.
func (w *MonitorPage) With(pairs ...string) string { return w.with(w.Range, pairs...) }

func (w *MonitorPage) with(s format.TimeRange, pairs ...string) string {
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

// Fields returns this page's parameters and its time range as hidden fields, except the named
// ones, for forms that send a page's address.
func (w *MonitorPage) Fields(without ...string) []Field {
	var all []Field
	values := url.Values{}
	for name, v := range w.Query {
		values[name] = v
	}
	for name, v := range w.Range.Params() {
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

// RangeChoices returns the choices of the time range picker.
func (w *MonitorPage) RangeChoices() []rangeChoice {
	var all []rangeChoice
	for _, l := range format.TimeRanges {
		s := format.TimeRange{Last: l.Length}
		all = append(all, rangeChoice{
			Name: l.Name, Address: w.with(s), Current: w.Range.Last == l.Length, Wide: l.Length < 15*time.Minute,
		})
	}
	return all
}

// Custom reports whether the time range is none of the picker's choices.
func (w *MonitorPage) Custom() bool {
	for _, l := range format.TimeRanges {
		if w.Range.Last == l.Length {
			return false
		}
	}
	return true
}

// SinceField returns the start of the time range in the format of date fields.
func (w *MonitorPage) SinceField() string { return w.Range.From.Format(format.InstantField) }

// UntilField returns the end of the time range in the format of date fields.
func (w *MonitorPage) UntilField() string { return w.Range.To.Format(format.InstantField) }

func RangeOf(c *httpserver.Call, now time.Time) (format.TimeRange, error) {
	return format.ParseTimeRange(c.Query("last"), c.Query("since"), c.Query("until"), now)
}
