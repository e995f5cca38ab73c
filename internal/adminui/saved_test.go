package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// unlisted is a token store whose list can be made unreachable.
type unlisted struct {
	identities.TokenStore
	gone atomic.Bool
}

func (u *unlisted) FindTokens(ctx context.Context, f wire.TokenList) (page paging.Page[*identity.Token], err error) {
	if u.gone.Load() {
		return page, fault.New(fault.Unavailable, "The database cannot be reached; nothing was changed.")
	}
	return u.TokenStore.FindTokens(ctx, f)
}

func TestPagesReportChangeSavedButNotInEffect(t *testing.T) {
	var store *unlisted
	var isReady atomic.Bool
	isReady.Store(true)
	n := newNode(t, func(d *adminui.Deps) {
		d.Ready = func(context.Context) wire.Readiness {
			return wire.Readiness{Parts: []wire.Part{{Name: "log", OK: true}, {Name: "database", OK: isReady.Load()}, {Name: "eviction"}, {Name: "memory"}, {Name: "geoip"}}}
		}
		store = &unlisted{TokenStore: d.Tokens.Store}
		d.Tokens.Store = store
	})
	maria := n.as(t, "maria")
	maria.get("/tokens").is(http.StatusOK).holds("Redis has evicted keys").holds("Memory for the counts of keys is short").holds("GeoIP files are missing or unreadable").lacks(" fails</span>")
	n.isUnreadable.Store(true)
	maria.post("/tokens", url.Values{"name": {"ci"}, "scopes": {"check"}, "for": {"90d"}}).is(http.StatusOK).
		holds("stint_check_").holds("not in effect on this node yet")
	maria.post("/blocks", url.Values{"pattern": {"token:a"}, "for": {"1h"}}).is(http.StatusInternalServerError).
		holds("Saved, and not in effect yet").holds("do not repeat it").lacks("Not saved")
	n.isUnreadable.Store(false)
	store.gone.Store(true)
	maria.post("/tokens", url.Values{"name": {"cd"}, "scopes": {"check"}, "for": {"90d"}}).is(http.StatusOK).
		holds("stint_check_").holds("The tokens cannot be read now")
	maria.get("/tokens").is(http.StatusServiceUnavailable).lacks("Checks go on")
	isReady.Store(false)
	maria.get("/tokens").is(http.StatusServiceUnavailable).holds("Checks go on")
}

func TestPagesReportChangeThatMayBeSaved(t *testing.T) {
	relay := servers.NewCommitBreaker(t, storetest.Migrated.Postgres(t).URL)
	n := newNodeOn(t, relay.URL)
	maria := n.as(t, "maria")
	maria.get("/blocks").is(http.StatusOK)
	relay.BreakNext("token:a", false)
	maria.post("/blocks", url.Values{"pattern": {"token:a"}, "for": {"1h"}}).is(http.StatusInternalServerError).
		holds("It may have been saved").holds("audit log").lacks("Not saved")
}

// TestSavedAndRepeatedChangePagesInBrowser inspects the pages of a token and of a block that were
// saved and are not in effect, and of an import that was confirmed twice.
func TestSavedAndRepeatedChangePagesInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("maria")
	b.do(chromedp.Navigate(n.url + "/blocks/import"))
	b.write("#list", "203.0.113.1")
	b.do(chromedp.Click(`input[name="for"][value="24h"]`))
	b.press("#try", "#confirm")
	// A first click, whose response is not shown.
	confirm := `(form => fetch(form.action, {method: "POST", body: new URLSearchParams(new FormData(form))}).then(r => r.status))(document.querySelector("#confirm").form)`
	if status := run(b, chromedp.Evaluate[int](confirm, chromedp.EvalAwaitPromise)); status != http.StatusOK {
		t.Fatalf("the import: got the status %d, want 200", status)
	}
	b.press("#confirm", "#result .alert")
	b.inspect("import-repeated", "")

	n.isUnreadable.Store(true)
	b.do(chromedp.Navigate(n.url + "/tokens"))
	b.write("#token-name", "ci")
	b.do(chromedp.Click(`input[name="scopes"][value="check"]`))
	b.press(`form[action="/tokens"] button.main`, ".secret")
	b.inspect("token-saved", "")
	b.do(chromedp.Navigate(n.url + "/blocks/new?pattern=token:a"))
	b.press("#add-button", "[data-back]")
	b.inspect("saved-not-in-effect", "")
}
