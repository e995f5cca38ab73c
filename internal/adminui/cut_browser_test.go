package adminui_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/storetest"
)

// cut returns the texts of the elements that match selector and that a page shows in part only.
func (b *browser) cut(selector string) []string {
	b.t.Helper()
	return run(b, chromedp.Evaluate[[]string](
		fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth).map(e => e.innerText.replace(/\s+/g, " "))`, selector)))
}

// Short names, reasons and times are whole at every width.
func TestShortCellsAreNotCutInBrowser(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	storetest.AddToken(t, &storetest.Fixture{Store: n.store}, "permanent", identity.Check)
	b := newBrowser(t, n)
	b.logIn("maria")
	for _, width := range []int64{1440, 1200, 960, 720, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		for path, whole := range map[string][]string{
			"/tokens": {"edge", "Never expires", "permanent"}, "/users": {"admin", "operator"},
			"/blocks": {"ip:203.0.113.201", "Price scraper", "Abuse list of 14 Nov", "Never expires"}, "/exemptions": {"ip:198.51.100.250", "Our own monitoring"},
		} {
			b.do(chromedp.Navigate(n.url + path))
			got := b.cut("td")
			for _, text := range whole {
				if slices.Contains(got, text) {
					t.Errorf("%s at %d: cut is %q", path, width, text)
				}
			}
		}
	}
}

// On a phone a table has no heads: a time or a number says in its cell what it is, unless its place
// in the row does.
func TestTimesAndNumbersHaveNamesOnPhones(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(390, 844))
	b.logIn("maria")
	for _, path := range []string{"/users", "/jobs", "/key?refusal=" + n.refusalOf(t, "ip:203.0.113.6"), "/tokens", "/keys", "/policies", "/policies/default/usage"} {
		b.do(chromedp.Navigate(n.url + path))
		nameless := run(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll("table.lines tbody td:not(.first, [data-label])")]
			.filter((e) => e.offsetParent && /^(never|[0-9][0-9,.:% ]*|.*[0-9]:[0-9]{2}.*)$/.test(e.innerText.trim())).map((e) => e.innerText.trim())`))
		if len(nameless) > 0 {
			t.Errorf("%s: without a name are %q", path, nameless)
		}
	}
}
