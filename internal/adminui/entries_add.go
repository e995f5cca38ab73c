package adminui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// addPage is the form that adds a block or an exemption, with a preview of its impact.
type addPage struct {
	site.Frame
	*kindTexts
	wire.AddEntry
	For         string
	Until       string
	FieldErrors form.FieldErrors
	Preview     *preview      // nil until there is a pattern
	Active      *blocks.Entry // the active entry of the pattern, nil for none
}

// Choices returns the durations that the form offers.
func (p *addPage) Choices() []form.Choice {
	return form.Choices("1h", "1 h", "4h", "4 h", "24h", "24 h", "7d", "7 days", "30d", "30 days", "good", "Permanent", "until", "Until (UTC)")
}

// preview shows the impact of a pattern.
type preview struct {
	*admin.Impact
	Covers string // "256 addresses", "every key"
	Ends   time.Time
	NoEnd  string      // why Ends is unknown, "" if it is known
	Grid   *chart.Grid // a drawing of its parts, nil if there are too few
	blocks bool
}

// Several reports whether a range or a list was read as several patterns.
func (v *preview) Several() bool { return len(v.Patterns) > 1 }

// Clean returns how many keys of the pattern never offended.
func (v *preview) Clean() int64 { return v.Counted.Keys - v.Counted.Offenders }

// Covering returns the exemptions that override the whole block.
func (v *preview) Covering() []*blocks.Entry { return v.exemptions(true) }

// Within returns the exemptions of a part of the block's keys.
func (v *preview) Within() []*blocks.Entry { return v.exemptions(false) }

func (v *preview) exemptions(covering bool) (all []*blocks.Entry) {
	for _, e := range v.Exemptions {
		coversAll := !slices.ContainsFunc(v.Patterns, func(p keys.Pattern) bool { return !e.Pattern.Covers(p) })
		if v.blocks && coversAll == covering {
			all = append(all, e)
		}
	}
	return all
}

// Touched returns the blocks that an exemption overrides.
func (v *preview) Touched() []*blocks.Entry {
	if v.blocks {
		return nil
	}
	return slices.Concat(v.CoveredBy, v.Impact.Covers)
}

// TypeText is the label of the field for the confirmation.
func (v *preview) TypeText() string {
	return "To confirm " + all(v.Covers) + ", type " + v.Text()
}

// all adds "all" to a count: "all 65,536 addresses".
func all(covers string) string {
	if covers != "" && covers[0] >= '1' && covers[0] <= '9' {
		return "all " + covers
	}
	return covers
}

func (h *entriesHandler) showAdd(c *httpserver.Call, s *kindTexts) error {
	names := []string{"pattern", "literal", "reason", "for", "until"}
	for term := range new(wire.EntryTerms).Texts() {
		names = append(names, term)
	}
	q, err := site.ReadQuery(c, names...)
	if err != nil {
		return err
	}
	page := addPageOf(url.Values(q))
	if page.For == "" && s.Blocks { // how long somebody is exempt must be chosen
		page.For = wire.DefaultBlock
	}
	return h.renderAdd(c, http.StatusOK, s, page)
}

// renderAdd shows the form, with a preview if it has a pattern.
func (h *entriesHandler) renderAdd(c *httpserver.Call, status int, s *kindTexts, page *addPage) error {
	page.kindTexts = s
	page.Frame = h.NewFrame(c, s.Verb, s.Path)
	page.Literal = page.Literal && h.entries.IsLiteral(c.Context(), page.Pattern)
	if page.Pattern != "" {
		var err error
		if page.Preview, err = h.preview(c, s, page.Pattern, page.Literal); err != nil {
			if err = page.FieldErrors.Add(err); err != nil {
				return err
			}
		}
	}
	if page.Preview != nil {
		ends, err := h.ParseExpiry(page.For, page.Until, h.Now())
		var invalid *fault.Error
		switch {
		case err == nil:
			page.Preview.Ends = ends
		case errors.As(err, &invalid):
			page.Preview.NoEnd = format.Capital(invalid.Message)
		default:
			return err
		}
	}
	return h.Render(c, status, "entries-add", page)
}

func (h *entriesHandler) preview(c *httpserver.Call, s *kindTexts, pattern string, literal bool) (*preview, error) {
	i, err := h.entries.Preview(c.Context(), site.CallerOf(c), s.Kind, pattern, literal)
	if err != nil {
		return nil, err
	}
	v := &preview{Impact: i, Covers: format.PatternSize(i.Pattern), blocks: s.Blocks}
	if v.Several() {
		v.Covers = phrase.Count(len(i.Patterns), "pattern")
		return v, nil
	}
	parts, err := h.entries.Parts(c.Context(), i.Pattern)
	if err != nil || parts == nil {
		return v, err
	}
	marked := keys.Pattern{}
	if i.Suggested != nil {
		marked = i.Suggested.Pattern
	}
	network, _ := i.Pattern.Network()
	v.Grid = chart.DrawGrid(network, parts.Bits, parts.Seen, marked)
	return v, nil
}

// Ratio formats the ratio of the last day's traffic, with its error.
func (v *preview) Ratio() string { return ratioWithError(v.Traffic) }

// ratioWithError formats an estimate in percent, with the range that contains the true value in
// 19 of 20 cases.
func ratioWithError(t *admin.TrafficEstimate) string {
	percent := func(part float64) string {
		return strings.TrimSuffix(strconv.FormatFloat(100*min(1, max(0, part)), 'f', 1, 64), ".0")
	}
	text, low, high := percent(t.Ratio)+"%", percent(t.Ratio-t.Error), percent(t.Ratio+t.Error)
	if low == high {
		return text
	}
	return text + " (" + low + " to " + high + "%)"
}

func (h *entriesHandler) readAdd(c *httpserver.Call) *addPage {
	values := form.Values(c)
	if narrow := values.Get("narrow"); narrow != "" {
		values.Set("pattern", narrow)
		values.Set("literal", "yes")
	}
	return addPageOf(values)
}

// addPageOf returns the form with what a request has.
func addPageOf(values url.Values) *addPage {
	page := &addPage{For: values.Get("for"), Until: values.Get("until"), FieldErrors: form.FieldErrors{}}
	form.Fill(values, &page.AddEntry)
	return page
}

// previewAdd shows the impact of the form without adding anything.
func (h *entriesHandler) previewAdd(c *httpserver.Call, s *kindTexts) error {
	return h.renderAdd(c, http.StatusOK, s, h.readAdd(c))
}

// addEntry adds the entries of the form, or shows the form again with its errors.
func (h *entriesHandler) addEntry(c *httpserver.Call, s *kindTexts) error {
	page := h.readAdd(c)
	if form.Values(c).Get("replace") == "yes" {
		page.OnConflict = wire.ConflictReplace
	}
	var added []admin.Added
	var err error
	if page.ExpiresAt.Time, err = h.ParseExpiry(page.For, page.Until, h.Now()); err == nil {
		added, err = h.entries.Add(c.Context(), site.CallerOf(c), admin.AddEntries{Kind: s.Kind, AddEntry: page.AddEntry})
	}
	if err == nil {
		what, ids := "added", make([]string, len(added))
		for i, one := range added {
			if ids[i] = one.Entry.ID; one.Before != nil {
				what = "replaced"
			}
		}
		return h.done(c, s, "", what, ids...)
	}
	var invalid *fault.Error
	if errors.As(err, &invalid) && invalid.Code == fault.Conflict {
		if id, named := invalid.Detail["id"].(string); named {
			if page.Active, err = h.entries.ByID(c.Context(), s.Kind, id); err != nil {
				return err
			}
		}
		return h.renderAdd(c, http.StatusConflict, s, page)
	}
	if err = page.FieldErrors.Add(err); err != nil {
		return err
	}
	return h.renderAdd(c, site.StatusInvalidForm, s, page)
}
