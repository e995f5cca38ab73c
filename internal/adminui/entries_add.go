package adminui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offenders"
)

// addPage is the form that adds a block or an exemption, and beside it what
// would come of it.
type addPage struct {
	site.Frame
	*kindTexts
	Pattern     string
	Reason      string
	For         string
	Until       string
	Confirm     string
	FieldErrors form.FieldErrors
	Preview     *preview      // nil until there is a pattern
	Stands      *blocks.Entry // the active entry of this pattern that was in the way
}

// Choices returns the lengths that the form offers.
func (p *addPage) Choices() []form.Choice {
	return form.Choices("1h", "1 h", "4h", "4 h", "24h", "24 h", "7d", "7 days", "30d", "30 days", "good", "For good", "until", "Until")
}

// preview says what a pattern would hit.
type preview struct {
	Pattern  keys.Pattern
	Covers   string // "256 addresses", "every key"
	Confirm  string // why it must be confirmed by typing it, "" where it need not be
	Widened  bool   // a bare IPv6 address was read as its network
	Own      bool   // it would hit the address that asks
	Ends     time.Time
	Hiding   []*blocks.Entry    // a block: those that hide all of it
	Within   []*blocks.Entry    // a block: those that stay open
	Touched  []*blocks.Entry    // an exemption: those that it breaks into
	Blast    *offenders.Blast   // nil where traffic is not counted
	Traffic  *blocklist.Traffic // nil where nothing is recorded
	Narrower *narrower          // a block: what to use in its place, nil for nothing
	Grid     *chart.Grid        // its parts drawn, nil where it has too few
}

// Clean returns how many keys it would hit that never offended.
func (v *preview) Clean() int64 { return v.Blast.Keys - v.Blast.Offenders }

// TypeText is what is to be typed to go on, as the label says it.
func (v *preview) TypeText() string {
	return "To select " + all(v.Covers) + ", type " + v.Pattern.String()
}

// all says that a count is meant as a whole: "all 65,536 addresses".
func all(covers string) string {
	if covers != "" && covers[0] >= '1' && covers[0] <= '9' {
		return "all " + covers
	}
	return covers
}

func (h *entriesHandler) showAdd(c *httpserver.Call, s *kindTexts) error {
	q, err := site.ReadQuery(c, "pattern", "reason", "for", "until")
	if err != nil {
		return err
	}
	page := &addPage{Pattern: q.Get("pattern"), Reason: q.Get("reason"), For: q.Get("for"), Until: q.Get("until"), FieldErrors: form.FieldErrors{}}
	if page.For == "" {
		page.For = "24h"
	}
	return h.renderAdd(c, http.StatusOK, s, page)
}

// renderAdd shows the form, with the preview of its pattern where it has one.
func (h *entriesHandler) renderAdd(c *httpserver.Call, status int, s *kindTexts, page *addPage) error {
	page.kindTexts = s
	page.Frame = h.NewFrame(c, s.Verb, s.Path)
	if page.Pattern != "" && page.Preview == nil {
		pattern, err := h.ParsePattern(page.Pattern)
		if err == nil {
			page.Preview, err = h.preview(c, s, pattern)
		}
		if err != nil {
			if err = page.FieldErrors.Add(err); err != nil {
				return err
			}
		}
	}
	if page.Preview != nil {
		if ends, err := h.ParseExpiry(page.For, page.Until, h.Now()); err == nil {
			page.Preview.Ends = ends
		}
	}
	return h.Render(c, status, "entries-add", page)
}

func (h *entriesHandler) preview(c *httpserver.Call, s *kindTexts, p keys.Pattern) (*preview, error) {
	now := h.Now()
	v := &preview{Pattern: p, Covers: format.PatternSize(p), Widened: p.Widened()}
	ctx := c.Context()
	if s.Blocks {
		r, err := h.surveyor().Survey(ctx, p, c.Address)
		if err != nil {
			return nil, err
		}
		v.Confirm, v.Own, v.Traffic = r.Confirm, r.BlocksCaller, r.Traffic
		for _, e := range r.Exemptions {
			if e.Pattern.Covers(p) {
				v.Hiding = append(v.Hiding, e)
			} else {
				v.Within = append(v.Within, e)
			}
		}
	} else {
		v.Confirm = blocklist.Broad(p)
		v.Touched = h.Catalog.Blocks().Overlapping(blocks.Block, p, now, maxTouching)
	}
	if h.offenders == nil {
		return v, nil
	}
	var err error
	if v.Blast, err = h.offenders.BlastRadius(ctx, p, now.Add(-24*time.Hour), now); err == nil && s.Blocks {
		v.Narrower, err = h.narrowerOf(ctx, p, v.Blast.Seen)
	}
	if err != nil {
		return v, err
	}
	marked := keys.Pattern{}
	if v.Narrower != nil {
		marked = v.Narrower.Pattern
	}
	v.Grid, err = h.gridOf(ctx, p, marked)
	return v, err
}

// Share writes a part of the last day's traffic with its error.
func (v *preview) Share() string { return shareOf(v.Traffic) }

// shareOf writes an estimate with its error, in percent.
func shareOf(t *blocklist.Traffic) string {
	percent := func(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) }
	return percent(t.Share) + "% ± " + percent(t.Error)
}

func (h *entriesHandler) readAdd(c *httpserver.Call) (*addPage, url.Values, error) {
	values, err := form.Read(c)
	if err != nil {
		return nil, nil, err
	}
	if narrow := values.Get("narrow"); narrow != "" {
		values.Set("pattern", narrow)
	}
	page := &addPage{
		Pattern: strings.TrimSpace(values.Get("pattern")), For: values.Get("for"), Until: values.Get("until"),
		Confirm: strings.TrimSpace(values.Get("confirm")), FieldErrors: form.FieldErrors{},
	}
	if page.Reason, err = form.Line(values, "reason", maxReason); err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return nil, nil, err
		}
	}
	if page.Pattern == "" {
		page.FieldErrors["pattern"] = "Write what to select: an address, a network such as 203.0.113.0/24, or a key such as token:abc."
	}
	return page, values, nil
}

// previewAdd shows what would come of the form, and adds nothing.
func (h *entriesHandler) previewAdd(c *httpserver.Call, s *kindTexts) error {
	page, _, err := h.readAdd(c)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if len(page.FieldErrors) > 0 && !site.IsHTMX(c.Ctx) {
		status = site.StatusInvalidForm
	}
	return h.renderAdd(c, status, s, page)
}

// addEntry adds what the form says, or shows it again with its errors.
func (h *entriesHandler) addEntry(c *httpserver.Call, s *kindTexts) error {
	page, values, err := h.readAdd(c)
	if err != nil {
		return err
	}
	ends, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		return h.renderAdd(c, site.StatusInvalidForm, s, page)
	}
	pattern, err := h.ParsePattern(page.Pattern)
	if err != nil {
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.renderAdd(c, site.StatusInvalidForm, s, page)
	}
	ctx := c.Context()
	if page.Confirm != pattern.String() {
		if why := h.whyConfirm(ctx, s, pattern); why != "" {
			page.FieldErrors["confirm"] = "Nothing was changed: " + why + ". To go on, type " + pattern.String() + "."
			return h.renderAdd(c, site.StatusInvalidForm, s, page)
		}
	}
	on := blocks.Fail
	if values.Get("replace") == "yes" {
		on = blocks.Replace
	}
	actor := c.Actor()
	added, err := h.entries.Add(ctx, actor, on, blocks.Entry{
		Kind: s.Kind, Pattern: pattern, Reason: page.Reason, Author: actor.Name, Source: blocks.Manual, Expires: ends,
	})
	if fault.Is(err, fault.Conflict) {
		var invalid *fault.Error
		if errors.As(err, &invalid) {
			if id, named := invalid.Detail["id"].(string); named {
				if page.Stands, err = h.entries.ByID(ctx, s.Kind, id); err != nil {
					return err
				}
			}
		}
		return h.renderAdd(c, http.StatusConflict, s, page)
	}
	if err != nil {
		return err
	}
	return h.done(c, s, "", "added", added[0].Entry.ID)
}
