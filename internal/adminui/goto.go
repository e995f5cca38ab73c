package adminui

import (
	"net/netip"
	"strings"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/refusal"
)

// KeyPath is the page that explains a key, given as ?key=, or a refusal, given
// as ?refusal=.
const KeyPath = "/key"

func (u *UI) goRoutes() []api.Route {
	return []api.Route{u.get("/go", identity.Read, u.goTo)}
}

// goTo leads from what somebody typed or pasted to its page: a refusal's id, a
// key, or an address without its kind.
func (u *UI) goTo(c *api.Call) error {
	text := strings.TrimSpace(c.Query("q"))
	if text == "" {
		return u.seeOther(c, "/")
	}
	kept, err := spanOf(c, u.Now())
	if err != nil {
		return err
	}
	if id, err := refusal.Parse(text); err == nil {
		return u.seeOther(c, spanned(KeyPath, kept, "refusal", id.String()))
	}
	if _, err := netip.ParseAddr(text); err == nil {
		text = "ip:" + text
	}
	key, err := u.Catalog.Parser().Key(text)
	if err != nil {
		return fault.Field("q", "%s", err.Error())
	}
	return u.seeOther(c, spanned(KeyPath, kept, "key", key.String()))
}
