package adminui

import (
	"net/netip"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// searchHandler leads from a typed key or id to its page.
type searchHandler struct {
	*site.Site
	detection *admin.Detection // nil where offences are not counted
}

func (h *searchHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/go", identity.Read, h.goTo),
		h.Get("/go/keys", identity.Read, h.suggestKeys),
	}
}

// Suggestions for what is being typed: how many, and from how many characters
// on.
const (
	suggested = 8
	minText   = 2
)

// suggestion is a key that may be meant, and why it is offered.
type suggestion struct{ Key, Why string }

// suggestKeys answers the field for keys, while somebody types, with those that
// offended lately and hold the text, the worst first.
func (h *searchHandler) suggestKeys(c *httpserver.Call) error {
	text := format.ClipLine(strings.TrimSpace(c.Query("q")), keys.MaxLength)
	var found []suggestion
	if h.detection != nil && len(text) >= minText {
		ctx := c.Context()
		now := h.Now()
		ranking, err := h.detection.Rank(ctx, offences.Query{From: now.Add(-format.DefaultTimeRange), To: now, Search: text, Limit: suggested})
		if err != nil {
			return err
		}
		for _, row := range ranking.Rows {
			if format.VisibleText(row.Key) != row.Key {
				continue // browsers draw suggestions themselves: what hides in a text would act there
			}
			found = append(found, suggestion{row.Key, format.Plural(row.Offences, "offence") + " in the last hour"})
		}
	}
	return h.RenderPart(c, "go-keys", "keys", found)
}

// goTo leads from what somebody typed or pasted to its page: a refusal's id, a
// key, or an address without its kind.
func (h *searchHandler) goTo(c *httpserver.Call) error {
	text := strings.TrimSpace(c.Query("q"))
	if text == "" {
		return h.Redirect(c, "/")
	}
	kept, err := site.RangeOf(c, h.Now())
	if err != nil {
		return err
	}
	if id, err := offences.ParseRefusalID(text); err == nil {
		return h.Redirect(c, site.WithRange(site.KeyPath, kept, "refusal", id.String()))
	}
	if _, err := netip.ParseAddr(text); err == nil {
		text = "ip:" + text
	}
	key, err := h.Catalog.Parser().Key(text)
	if err != nil {
		return fault.Field("q", "%s", err.Error())
	}
	return h.Redirect(c, site.WithRange(site.KeyPath, kept, "key", key.String()))
}
