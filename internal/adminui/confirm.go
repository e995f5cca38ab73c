package adminui

import (
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// askBroad redirects to the form that shows the impact of one broad pattern that needs the
// confirmation err. It returns any other error, and err if there are several patterns.
func askBroad(s *site.Site, c *httpserver.Call, texts *kindTexts, page *bulkPage, err error) error {
	pattern, reason, asks := site.NeededConfirmation(err)
	if !asks {
		return err
	}
	if len(page.Keys) > 1 {
		return fault.New(fault.NeedConfirm, "Nothing was changed: %s is broad: %s. Add it alone on the page of %ss, which shows its impact.", pattern, reason, texts.Noun)
	}
	ask := url.Values{"pattern": {pattern}, "literal": {"yes"}}
	said := map[string]string{"reason": page.Reason, "for": page.For, "until": page.Until}
	for term, text := range page.Texts() {
		said[term] = *text
	}
	for name, value := range said {
		if value != "" {
			ask.Set(name, value)
		}
	}
	return s.Redirect(c, texts.Path+"/new?"+ask.Encode())
}

// askRestore redirects to the form that adds a broad entry that was not restored, with its
// reason and expiry. It returns any other error.
func askRestore(s *site.Site, c *httpserver.Call, entries *admin.Entries, texts *kindTexts, ids []string, restored error) error {
	if _, _, asks := site.NeededConfirmation(restored); !asks {
		return restored
	}
	ended, err := entries.ByID(c.Context(), texts.Kind, ids[0])
	if err != nil {
		return err
	}
	return askBroad(s, c, texts, pageOf(ended, ids), restored)
}

// pageOf returns the form values that add an ended entry again.
func pageOf(e *blocks.Entry, ids []string) *bulkPage {
	page := &bulkPage{Keys: ids, AddEntry: wire.AddEntry{Reason: e.Reason, EntryTerms: e.EntryTerms}}
	page.For, page.Until = site.ExpiryChoice(e.Expires)
	return page
}

// undoPage asks for confirmation before an undo restores a broad block, exemption or policy.
type undoPage struct {
	site.Frame
	Record *audit.Record
	Text   string // must be typed to confirm
	Why    string
	Error  string // "" for none
}

// askUndo asks for the text that confirms an undo, whose error is undone. It returns any other
// error. typed is what was typed before, "" for nothing.
func (h *auditHandler) askUndo(c *httpserver.Call, id int64, typed string, undone error) error {
	text, reason, asks := site.NeededConfirmation(undone)
	if !asks {
		return undone
	}
	record, err := h.audit.ByID(c.Context(), id)
	if err != nil {
		return err
	}
	page := undoPage{Frame: h.NewFrame(c, "Undo", "/audit"), Record: record, Text: text, Why: reason}
	status := http.StatusOK
	if typed != "" {
		page.Error, status = "Nothing was changed. To undo it, type "+page.Text+".", site.StatusInvalidForm
	}
	return h.Render(c, status, "undo", page)
}
