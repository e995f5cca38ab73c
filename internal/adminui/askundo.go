package adminui

import (
	"context"
	"net/http"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/httpserver"
)

// undoPage asks before a broad block, exemption or policy is brought back.
type undoPage struct {
	Frame
	Entry   *audit.Record
	Text    string // is to be typed
	Why     string
	Mistake string // "" for none
}

// askUndo asks about an entry that brings back what is broad, and reports
// whether it did: not where typed is the pattern, or the
// name of the policy.
func (u *UI) askUndo(ctx context.Context, c *httpserver.Call, e *audit.Record, typed string) (bool, error) {
	if e.Object == "policy" {
		before, after, err := blocklist.BroughtBackPolicy(e)
		if err != nil {
			return false, err
		}
		return u.askTyped(c, e, e.ObjectID, blocklist.BroadPolicy(before, after), typed)
	}
	p, err := blocklist.BroughtBack(e)
	if err != nil || p.IsZero() {
		return false, err
	}
	s := blockTexts
	if e.Object == "exemption" {
		s = exemptionTexts
	}
	return u.askTyped(c, e, p.String(), u.whyConfirm(ctx, s, p), typed)
}

// askTyped asks for a text to be typed, since why; where why is "" or it was
// typed, it asks nothing.
func (u *UI) askTyped(c *httpserver.Call, e *audit.Record, text, why, typed string) (bool, error) {
	if why == "" || strings.TrimSpace(typed) == text {
		return false, nil
	}
	page := undoPage{Frame: u.frame(c, "Undo", "/audit"), Entry: e, Text: text, Why: why}
	status := http.StatusOK
	if typed != "" {
		page.Mistake, status = "Nothing was changed. To undo it, type "+page.Text+".", statusOfForm
	}
	return true, u.render(c, status, "undo", page)
}

// askRestore asks about what is restored from ended entries and is broad, and
// reports whether it did. Nobody is asked who takes back within a minute what
// they ended themselves: that is the undo of the toast, everything was so until
// they clicked, and a mistaken end is to be mended at once.
func (u *UI) askRestore(ctx context.Context, c *httpserver.Call, s *kindTexts, ids []string) (bool, error) {
	for _, id := range ids {
		ended, err := u.Entries.ByID(ctx, s.Kind, id)
		if err != nil {
			return false, err
		}
		now := u.Now()
		own := ended.EndedBy == c.Actor().Name && now.Sub(ended.Ended) <= toastTime
		over := !ended.Expires.IsZero() && !now.Before(ended.Expires) // it is not restored
		if own || over || ended.Ended.IsZero() {
			continue
		}
		if why := u.whyConfirm(ctx, s, ended.Pattern); why != "" {
			page := &manyPage{Keys: ids, Reason: ended.Reason, For: "good"}
			if !ended.Expires.IsZero() {
				page.For, page.Until = "until", format.DateOf(ended.Expires)
			}
			return true, u.askWide(c, s, page, ended.Pattern, why)
		}
	}
	return false, nil
}
