package adminui

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
)

// confirmer asks for the confirmation of changes that are broad.
type confirmer struct {
	*site.Site
	entries blocks.Store
	traffic blocklist.TrafficEstimator // nil where no traffic is sampled
}

// surveyor finds the impact of blocks by the same rules as the REST API.
func (h *confirmer) surveyor() *blocklist.Surveyor {
	return &blocklist.Surveyor{View: h.Catalog, Parser: h.Catalog.Parser, Traffic: h.traffic, Now: h.Now}
}

// whyConfirm says why an entry with a pattern must be confirmed before it is
// added or prolonged, "" where it need not be.
func (h *confirmer) whyConfirm(ctx context.Context, s *kindTexts, p keys.Pattern) string {
	if !s.Blocks {
		return blocklist.Broad(p)
	}
	return h.surveyor().WhyConfirm(ctx, p)
}

// unconfirmed returns the first of the patterns that must be confirmed, and
// why; "" where none must.
func (h *confirmer) unconfirmed(c *httpserver.Call, s *kindTexts, patterns []keys.Pattern) (keys.Pattern, string) {
	ctx := c.Context()
	for _, p := range patterns {
		if why := h.whyConfirm(ctx, s, p); why != "" {
			return p, why
		}
	}
	return keys.Pattern{}, ""
}

// askBroad redirects to the form that shows the impact of one broad pattern. A
// broad pattern among several is an error.
func (h *confirmer) askBroad(c *httpserver.Call, s *kindTexts, page *bulkPage, p keys.Pattern, why string) error {
	if len(page.Keys) > 1 {
		return fault.New(fault.NeedConfirm, "Nothing was changed: %s is broad: %s. Add it alone on the page of %ss, which shows its impact.", p, why, s.Noun)
	}
	ask := url.Values{"pattern": {p.String()}}
	for name, value := range map[string]string{"reason": page.Reason, "for": page.For, "until": page.Until} {
		if value != "" {
			ask.Set(name, value)
		}
	}
	return h.Redirect(c, s.Path+"/new?"+ask.Encode())
}

// asker answers with a question before entries are changed, and reports whether
// it did.
type asker func(ctx context.Context, c *httpserver.Call, s *kindTexts, ids []string) (bool, error)

// askRestore asks for the confirmation of broad entries that are restored, and
// reports whether it did. It does not ask the author of an end within a minute
// of it: this is the undo of the toast, which only restores the former state.
func (h *confirmer) askRestore(ctx context.Context, c *httpserver.Call, s *kindTexts, ids []string) (bool, error) {
	for _, id := range ids {
		ended, err := h.entries.ByID(ctx, s.Kind, id)
		if err != nil {
			return false, err
		}
		now := h.Now()
		own := ended.EndedBy == c.Actor().Name && now.Sub(ended.Ended) <= toastTime
		expired := !ended.Expires.IsZero() && !now.Before(ended.Expires) // it is not restored
		if own || expired || ended.Ended.IsZero() {
			continue
		}
		if why := h.whyConfirm(ctx, s, ended.Pattern); why != "" {
			page := &bulkPage{Keys: ids, Reason: ended.Reason, For: "good"}
			if !ended.Expires.IsZero() {
				page.For, page.Until = "until", format.DateOf(ended.Expires)
			}
			return true, h.askBroad(c, s, page, ended.Pattern, why)
		}
	}
	return false, nil
}

// undoPage asks before an undo restores a broad block, exemption or policy.
type undoPage struct {
	site.Frame
	Record *audit.Record
	Text   string // that must be typed
	Why    string
	Error  string // "" for none
}

// askUndo asks for the confirmation of an undo that restores something broad,
// and reports whether it did. typed confirms it: the pattern, or the name of the
// policy.
func (h *confirmer) askUndo(ctx context.Context, c *httpserver.Call, e *audit.Record, typed string) (bool, error) {
	if e.Object == "policy" {
		before, after, err := blocklist.BroughtBackPolicy(e)
		if err != nil {
			return false, err
		}
		return h.askTyped(c, e, e.ObjectID, blocklist.BroadPolicy(before, after), typed)
	}
	p, err := blocklist.BroughtBack(e)
	if err != nil || p.IsZero() {
		return false, err
	}
	s := blockTexts
	if e.Object == "exemption" {
		s = exemptionTexts
	}
	return h.askTyped(c, e, p.String(), h.whyConfirm(ctx, s, p), typed)
}

// askTyped asks for text to be typed, for the reason why. It does not ask where
// why is "" or text was typed.
func (h *confirmer) askTyped(c *httpserver.Call, e *audit.Record, text, why, typed string) (bool, error) {
	if why == "" || strings.TrimSpace(typed) == text {
		return false, nil
	}
	page := undoPage{Frame: h.NewFrame(c, "Undo", "/audit"), Record: e, Text: text, Why: why}
	status := http.StatusOK
	if typed != "" {
		page.Error, status = "Nothing was changed. To undo it, type "+page.Text+".", site.StatusInvalidForm
	}
	return true, h.Render(c, status, "undo", page)
}
