package adminui_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

// show opens a page at a width.
func (b *browser) show(width int64, path string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(b.node.url+path))
	b.waitFor(`document.querySelector("#main")`)
}

// says fails unless the page shows the texts.
func (b *browser) says(texts ...string) {
	b.t.Helper()
	shown := strings.Join(strings.Fields(b.text()), " ")
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			b.t.Errorf("the page does not show %q: %s", text, shown)
		}
	}
}

// saysNot fails if the page shows one of the texts.
func (b *browser) saysNot(texts ...string) {
	b.t.Helper()
	shown := strings.Join(strings.Fields(b.text()), " ")
	for _, text := range texts {
		if strings.Contains(shown, text) {
			b.t.Errorf("the page shows %q: %s", text, shown)
		}
	}
}

func TestOffendersTableIsReadableAtEveryWidth(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	n.block(t, "ip:203.0.113.128/25", "", "maria", blocks.Manual, 24*time.Hour)
	b := newBrowser(t, n)
	b.logIn("olu")
	for _, width := range []int64{390, 768, 1024, 1440, 1920} {
		for _, path := range []string{"/offenders", "/offenders?columns=allowed,refused,rule,policy,first,last,trend,state", "/"} {
			b.show(width, path)
			b.waitFor(`document.querySelector("table.offenders td.first")`)
			cut := run(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll("table.offenders td:is(.first, .state)")]
				.filter(td => td.checkVisibility() && [td, ...td.querySelectorAll("span:not(.visually-hidden), bdi")].some(e => e.scrollWidth > e.clientWidth && e.clientWidth > 0))
				.map(td => td.innerText)`))
			if len(cut) > 0 {
				t.Errorf("%s at %d: the texts %q are cut off", path, width, cut)
			}
		}
	}
	for _, width := range []int64{390, 1440} {
		b.show(width, "/offenders")
		b.do(chromedp.Click(chromedp.CSS(".spans .custom > summary")))
		b.waitFor(`["#since", "#until", ".spans form .button"].every(selector => {
			const e = document.querySelector(selector), box = e.getBoundingClientRect(), style = getComputedStyle(e);
			const shown = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
			return style.opacity === "1" && box.left >= 0 && box.right <= innerWidth && (shown === e || e.contains(shown));
		})`)
		b.do(chromedp.Click(chromedp.CSS(".spans form .button")))
		b.waitFor(`location.search.includes("since=") && document.querySelector(".custom[data-custom]")`)
	}
	b.consoleIsClean()
}

func TestKeyPageOfBlockedOrExemptKeyInBrowser(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	page := func(key string) { b.show(1440, "/key?"+url.Values{"key": {key}}.Encode()) }
	// Each key is limited by a rule, then blocked or exempt.
	for _, key := range []string{"ip:203.0.113.6", "ip:203.0.113.10", "ip:203.0.113.150"} {
		n.send(t, key, key, key)
	}
	page("ip:203.0.113.6")
	b.says("limiting now", "Next free", "Block this key")
	n.block(t, "ip:203.0.113.6", "scraping", "maria", blocks.Manual, 24*time.Hour)
	page("ip:203.0.113.6")
	b.says("Blocked by maria", "not checked while the key is blocked", "This key is blocked", "Unblock")
	b.saysNot("limiting now", "Next free", "Next allowed", "It would have refused")
	n.block(t, "ip:203.0.113.128/25", "range", "maria", blocks.Manual, 24*time.Hour)
	page("ip:203.0.113.150")
	b.says("This key is blocked", "ip:203.0.113.128/25", "Show the block")
	b.saysNot("limiting now", "It would have refused")
	_, err := n.store.Entries.Add(context.Background(), audit.Actor{Kind: audit.User, Name: "jo"}, blocks.Fail,
		blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "ip:203.0.113.10"), Reason: "our monitoring", Author: "jo"})
	must(t, err)
	page("ip:203.0.113.10")
	b.says("This key is exempt", "A block of it would have no effect", "not checked while the key is exempt")
	b.saysNot("limiting now", "Next free", "It would have refused", "Block this key")
	if red := run(b, chromedp.Evaluate[int](`document.querySelectorAll(".button.refuse").length`)); red != 0 {
		t.Errorf("the page of an exempt key has %d red buttons, want none", red)
	}
	b.press(`#block button[name="id"]`, "[data-toast] button")
	b.says("Ended the exemption of ip:203.0.113.10", "Block this key")
	b.consoleIsClean()
}

// networkConditions are the parameters of Network.emulateNetworkConditionsByRule. Chromium 148
// requires Offline here; later versions read it from the conditions. Both ignore the other one.
type networkConditions struct {
	Offline                  bool                  `json:"offline"`
	MatchedNetworkConditions []*network.Conditions `json:"matchedNetworkConditions"`
}

var emulateNetworkConditions = cdp.Command[networkConditions, network.EmulateNetworkConditionsByRuleResult]{
	Method: network.CommandEmulateNetworkConditionsByRule,
}

// offline makes all servers unreachable for the browser, or reachable again.
func offline(is bool) func(context.Context, *chromedp.Target) error {
	return func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		all := &network.Conditions{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}
		_, err := cdp.Call(ctx, t, emulateNetworkConditions, networkConditions{is, []*network.Conditions{all}})
		return err
	}
}

func TestPagesReportLostServerAndEndedSessionInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/")
	b.waitFor(`!document.querySelector("[data-age]").hidden`)
	b.do(chromedp.Func(offline(true)))
	b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`)) // as the page does every 5 s
	b.waitFor(`document.documentElement.hasAttribute("data-lost")`)
	b.says("The server does not answer.", "s old.", "No answer for")
	b.saysNot("All services OK", "Everything")
	b.do(chromedp.Func(offline(false)))
	b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`))
	b.waitFor(`!document.documentElement.hasAttribute("data-lost")`)
	b.saysNot("The server does not answer")

	// A form that is sent to an unreachable server keeps its values.
	b.show(1440, "/blocks/new")
	b.write("#pattern", "203.0.113.7")
	b.write("#reason", "scraping & more")
	b.waitFor(`document.querySelector("#add-button")?.innerText.includes("1 address")`)
	b.do(chromedp.Func(offline(true)), chromedp.Click(chromedp.CSS("#add-button")))
	b.waitFor(`document.querySelector("[data-connection]").innerText.includes("what you typed stays")`)
	if kept := run(b, chromedp.Evaluate[string](`document.querySelector("#reason").value`)); kept != "scraping & more" {
		t.Errorf("the field reason has %q, want the typed text", kept)
	}
	b.do(chromedp.Func(offline(false)))

	// The session ends before the form is sent again.
	n.clock.advance(3 * time.Hour)
	b.press("#add-button", "#password")
	b.says("Nothing was changed: your session has ended.", "what you typed is kept")
	b.audit("login after the session's end")
	b.write("#name", "olu")
	b.write("#password", password+"\r")
	b.waitFor(`document.querySelector("[data-unsent]")`)
	b.says("Not sent yet", "scraping & more", "203.0.113.7")
	b.audit("a form that was not sent")
	b.press("[data-refill]", "#pattern")
	b.waitFor(`document.querySelector("#pattern").value === "203.0.113.7" && document.querySelector("#reason").value === "scraping & more"`)
	if all := n.activeBlocks(t); len(all) != 0 {
		t.Fatalf("%d blocks are active before the form was sent, want none", len(all))
	}
	b.waitFor(`document.querySelector("#add-button")?.innerText.includes("1 address")`)
	b.press("#add-button", "[data-toast] button")
	b.says("Blocked ip:203.0.113.7")
	// The added block is undone.
	b.do(chromedp.Click(chromedp.CSS("[data-toast] button")))
	b.waitFor(`document.querySelector("[data-toast]")?.innerText.includes("Ended the block of")`)
	if all := n.activeBlocks(t); len(all) != 0 {
		t.Errorf("%d blocks are active after the undo, want none", len(all))
	}

	// A partial request without a session does not change the page.
	b.show(1440, "/blocks/new")
	n.clock.advance(3 * time.Hour)
	b.write("#pattern", "203.0.113.8")
	b.waitFor(`document.querySelector("[data-connection]").innerText.includes("Your session has ended.")`)
	b.waitFor(`document.querySelector("[data-connection-login]").getAttribute("href") === "/login?next=%2Fblocks%2Fnew"`)
}

func TestUnsentFormIsOfferedAfterLoginWithoutJavaScript(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "olu")
	n.clock.advance(3 * time.Hour)
	add := url.Values{"pattern": {"203.0.113.9"}, "reason": {hostile[0]}, "for": {"24h"}, "csrf": {v.csrf}}
	page := v.post("/blocks", add).is(http.StatusUnauthorized).holds("Nothing was changed: your session has ended.").lacks("<script>alert")
	login := url.Values{"name": {"olu"}, "password": {password}}
	for _, field := range unsentField.FindAllStringSubmatch(page.body, -1) {
		login.Set(field[1], html.UnescapeString(field[2]))
	}
	if login.Get("unsent_action") != "/blocks" || strings.Contains(login.Get("unsent"), "csrf") {
		t.Fatalf("the login page has the unsent form %v", login)
	}
	v.post("/login", url.Values{"name": {"olu"}, "password": {"wrong"}, "unsent_action": {"/blocks"}, "unsent": login["unsent"]}).
		is(http.StatusUnprocessableEntity).holds(`name="unsent"`)
	v.post("/login", login).is(http.StatusOK).holds("Not sent yet").holds(`action="/blocks"`).lacks("<script>alert")
	delete(add, "csrf") // that of the page
	v.post("/blocks", add).is(http.StatusSeeOther)
	// A form from another site is not offered.
	stranger := n.visitor(t)
	stranger.do(http.MethodPost, "/blocks", add, http.Header{"Sec-Fetch-Site": {"cross-site"}}).is(http.StatusSeeOther)
	login.Set("unsent_action", "https://evil.example/")
	stranger.post("/login", login).is(http.StatusOK).lacks("evil.example")
}

func TestSearchSuggestionsAndPageDetailsInBrowser(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	n.send(t, "ip:203.0.113.150", "ip:203.0.113.150", "ip:203.0.113.150")
	n.flush(t)
	id := n.refusalOf(t, "ip:203.0.113.150")
	n.block(t, "ip:192.0.2.0/24", "range", "maria", blocks.Manual, time.Hour)
	b := newBrowser(t, n)
	b.logIn("maria")
	b.show(1440, "/")
	for typed, want := range map[string]string{
		"203.0.113.6": "ip:203.0.113.6", "198.51.100.77": "ip:198.51.100.77: not seen in the last 30 days", "defau": "default: a policy",
		"192.0.2": "ip:192.0.2.0/24: blocked", id: id + ": the id of a refusal",
	} {
		b.write("[data-goto]", typed)
		b.waitFor(`[...document.querySelectorAll("#goto-keys option")].some(o => (o.value + ": " + o.innerText).startsWith(` + strconv.Quote(want) + `))`)
	}
	for typed, path := range map[string]string{"default": "/policies/default", "192.0.2.0/24": "/blocks?q=ip%3A192.0.2.0%2F24", "203.0.113.0/24": "/offenders?pattern=ip%3A203.0.113.0%2F24"} {
		b.show(1440, "/go?q="+url.QueryEscape(typed))
		b.waitFor(`location.pathname + location.search === ` + strconv.Quote(path))
	}
	b.show(1440, "/key?key=user:nobody")
	b.says("Never seen.")
	b.show(1440, "/key?key=ip:203.0.113.150")
	b.saysNot("Never seen.")
	b.waitFor(`document.querySelector("a.id").innerText === ` + strconv.Quote(id)) // all of it
	b.show(1440, "/users")
	b.waitFor(`document.querySelector('input[name="role"]:checked').value === "viewer"`)
	b.show(1440, "/no/such/page")
	b.says("Not found", "There is no page at this address.")
	b.show(390, "/settings")
	b.waitFor(`(box => box.left >= 0 && box.right <= innerWidth)(document.querySelector(".nav [aria-current]").getBoundingClientRect())`)
	// A confirmation is not covered by the fixed bar at the top.
	b.show(1440, "/key?key=ip:203.0.113.6&ask=reset#reset")
	b.waitFor(`document.querySelector("#reset").getBoundingClientRect().top >= document.querySelector(".top").getBoundingClientRect().bottom`)
	// A proposal is open until its range is blocked.
	b.show(1440, "/proposals")
	b.says("203.0.113.0/24")
	n.block(t, "ip:203.0.113.0/24", "the range", "maria", blocks.Manual, time.Hour)
	b.show(1440, "/")
	b.says("No open proposals.")
	b.show(1440, "/blocks?state=ended")
	b.saysNot("requests in the last hour")
}

func TestLivePageFetchesNewEventsAndPausesUnderPointer(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("vic")
	b.show(1440, "/live")
	b.waitFor(`document.body.innerText.includes("No events yet.") && document.querySelector("[data-age-text]").innerText === "Live"`)
	n.send(t, "token:first")
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 1`)
	b.do(chromedp.Evaluate[chromedp.Void](`window.asked = []; document.addEventListener("htmx:afterRequest",
		e => asked.push([e.detail.pathInfo.finalRequestPath, (e.detail.xhr.responseText.match(/<tr data-key/g) || []).length]))`))
	n.send(t, "token:second")
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 2 && document.querySelector("table.events tbody tr").innerText.includes("second")`)
	b.waitFor(`window.asked.some(([path, rows]) => path.includes("after=") && rows === 1)`)
	// New events are held back while the pointer is on a row.
	b.do(chromedp.Func(pointAt(b, "table.events tbody tr")))
	b.waitFor(`document.querySelector("[data-age-text]").innerText === "Paused while you point"`)
	n.send(t, "token:third")
	b.do(chromedp.Func(pointAt(b, "h1")))
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 3`)
	// The rows of another run of the node are replaced by those of this one.
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#live").dataset.run = "before"; document.querySelector("table.events tbody").innerHTML =
		"<tr data-key='before-5000'><td>of another run</td></tr>"`))
	n.send(t, "token:fourth")
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 4 && !document.body.innerText.includes("of another run")`)
	v := n.as(t, "vic")
	for _, path := range []string{"/live", "/static/app.js", "/static/app.css"} {
		got := v.do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {"gzip"}}).is(http.StatusOK)
		if got.header.Get("Content-Encoding") != "gzip" || !strings.Contains(got.header.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%s: got the headers %v, want gzip", path, got.header)
		}
	}
	v.get("/live?after=x").is(http.StatusUnprocessableEntity)
	b.consoleIsClean()
}

// pointAt moves the pointer to the middle of an element.
func pointAt(b *browser, selector string) func(context.Context, *chromedp.Target) error {
	return func(ctx context.Context, t *chromedp.Target) error {
		at, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](
			`(box => [box.left + box.width / 2, box.top + box.height / 2])(document.querySelector(`+strconv.Quote(selector)+`).getBoundingClientRect())`))
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: at[0], Y: at[1]})
		return err
	}
}

var unsentField = regexp.MustCompile(`name="(unsent[a-z_]*)" value="([^"]*)"`)
