package adminui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/administration"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// firstRunPage shows the first steps. It replaces the overview until there was a check.
type firstRunPage struct {
	site.Frame
	Checked            bool              // a check was answered
	Connected          bool              // keys other than that of the example were checked
	Question           *presets.Question // what is protected, nil once that is known
	CheckURL, AdminURL string
	DataDir            string
	Policy             *rules.Policy // the policy of the example's key, nil for none
	Meaning            string
	Cost               int  // of the checks that are to be refused
	Refused            bool // the policy refuses the second of two checks of that cost
	NeedsToken         bool // checks need a token
}

// firstRunHandler serves the first steps.
type firstRunHandler struct {
	*site.Site
	checked            func(context.Context) (bool, error) // nil means never
	detection          *admin.Detection                    // nil if traffic is not counted
	settings           func() []administration.Setting
	checkURL, adminURL string
	dataDir            string
	answered           atomic.Bool // a check was answered
	connected          atomic.Bool // see isConnected
}

func (h *firstRunHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get("/start", identity.Read, h.show)}
}

// exampleKey is the key of the commands that the first run shows.
const exampleKey = "ip:203.0.113.7"

func (h *firstRunHandler) show(c *httpserver.Call) error {
	if site.IsHTMX(c.Ctx) {
		return h.askFirstRun(c)
	}
	page := firstRunPage{
		Frame: h.NewFrame(c, "First steps", "/"), CheckURL: h.checkURL, AdminURL: h.adminURL, DataDir: h.dataDir,
	}
	page.Checked, page.Question = h.hasChecked(c), presets.Ask(h.Catalog.Selector())
	page.Connected = page.Checked && h.isConnected(c.Context())
	key, err := h.Catalog.Parser().Key(exampleKey)
	if err != nil {
		return err
	}
	page.NeedsToken = slices.ContainsFunc(h.settings(), func(s administration.Setting) bool { return s.Name == "check-auth" && s.Value == "token" })
	if page.Policy, _ = h.Catalog.Selector().Select(rules.Subject{Key: key}); page.Policy != nil {
		page.Meaning = page.Policy.Describe()
		page.Cost = page.Policy.Rules.LargestCost()
		page.Refused = page.Policy.Mode == rules.Enforce && len(page.Policy.Rules) > 0 && page.Cost <= timestamplog.MaxCost
		if !page.Refused {
			page.Cost = 1
		}
	}
	return h.Render(c, http.StatusOK, "start", page)
}

// neverChecked reports whether no check was ever answered. After the first one it does not
// query the store.
func (h *firstRunHandler) neverChecked(c *httpserver.Call) bool {
	if h.checked == nil || h.answered.Load() {
		return false
	}
	ctx := c.Context()
	checked, err := h.checked(ctx)
	h.answered.Store(checked)
	return err == nil && !checked
}

// hasChecked reports whether it is known that a check was answered.
func (h *firstRunHandler) hasChecked(c *httpserver.Call) bool {
	return h.checked != nil && !h.neverChecked(c) && h.answered.Load()
}

// isConnected reports whether traffic arrives: several keys were checked, so that it is not only
// the example of the first steps. After that it does not query the store. It is true where the
// keys are not known.
func (h *firstRunHandler) isConnected(ctx context.Context) bool {
	if h.detection == nil || h.connected.Load() {
		return true
	}
	now := h.Now()
	n, err := h.detection.Store.DistinctKeys(ctx, 0, now.Add(-seenLately), now.Add(time.Minute))
	h.connected.Store(err == nil && n > 1)
	return err != nil || n > 1
}

// askFirstRun answers the page that waits for the first check. After it, the page is shown again,
// with the steps that remain.
func (h *firstRunHandler) askFirstRun(c *httpserver.Call) error {
	if !h.hasChecked(c) {
		return c.SendStatus(http.StatusNoContent) // the page asks again
	}
	return h.Redirect(c, "/start")
}

// authorization returns the line of a command with a token, "" if checks need none.
func (p firstRunPage) authorization(indent string) string {
	if !p.NeedsToken {
		return ""
	}
	return indent + `-H "Authorization: Bearer $STINT_CHECK_TOKEN" ` + "\\\n"
}

// AskCommand returns the command of a first check.
func (p firstRunPage) AskCommand() string {
	return "curl -s " + p.CheckURL + "/v1/check \\\n" + p.authorization("  ") +
		"  -H 'Content-Type: application/json' \\\n" +
		`  -d '{"key":"` + exampleKey + `"}'`
}

// AgainCommand returns the command of three checks in a row, of which the smallest limit allows at
// most one.
func (p firstRunPage) AgainCommand() string {
	cost := ""
	if p.Cost > 1 {
		cost = fmt.Sprintf(`,"cost":%d`, p.Cost)
	}
	return "for i in 1 2 3; do\n" +
		"  curl -s -o /dev/null -w '%{http_code}\\n' " + p.CheckURL + "/v1/check \\\n" + p.authorization("    ") +
		"    -H 'Content-Type: application/json' -d '" + `{"key":"` + exampleKey + `"` + cost + `}` + "'\n" +
		"done"
}

// BlockCommand returns the command that blocks the example's key.
func (p firstRunPage) BlockCommand() string {
	return "curl -s " + p.AdminURL + "/v1/blocks \\\n" +
		`  -H "Authorization: Bearer $STINT_ADMIN_TOKEN" ` + "\\\n" +
		"  -H 'Content-Type: application/json' \\\n" +
		`  -d '{"pattern":"` + exampleKey + `","reason":"trying it out","expires_in":"10m"}'`
}
