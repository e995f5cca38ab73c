package adminui

import (
	"net/url"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/httpserver"
)

// spanChoice is one of the spans that the picker offers.
type spanChoice struct {
	Name, Address string
	Current       bool
	Wide          bool // left out where there is little room
}

// watch is what the pages about what happened have in common.
type watch struct {
	Frame
	Span  format.TimeRange
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

func spanned(path string, s format.TimeRange, pairs ...string) string {
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

func (w *watch) with(s format.TimeRange, pairs ...string) string {
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
	for _, l := range format.TimeRanges {
		s := format.TimeRange{Last: l.Length}
		all = append(all, spanChoice{
			Name: l.Name, Address: w.with(s), Current: w.Span.Last == l.Length, Wide: l.Length < 15*time.Minute,
		})
	}
	return all
}

// Custom reports whether the span is none of those that the picker names.
func (w *watch) Custom() bool {
	for _, l := range format.TimeRanges {
		if w.Span.Last == l.Length {
			return false
		}
	}
	return true
}

// SinceField and UntilField are the ends as fields of dates write them.
func (w *watch) SinceField() string { return w.Span.From.Format(format.InstantField) }

// UntilField is the end of the span.
func (w *watch) UntilField() string { return w.Span.To.Format(format.InstantField) }

func spanOf(c *httpserver.Call, now time.Time) (format.TimeRange, error) {
	return format.ParseTimeRange(c.Query("last"), c.Query("since"), c.Query("until"), now)
}
