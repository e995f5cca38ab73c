package adminui_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

var filterField = regexp.MustCompile(`name="filter" value="([^"]+)"`)

// filterOf returns the filter of a page of offenders, which selects all matching keys.
func filterOf(t testing.TB, a *answer) string {
	t.Helper()
	m := filterField.FindStringSubmatch(a.body)
	if m == nil {
		t.Fatalf("the page has no filter: %s", a.shown())
	}
	return html.UnescapeString(m[1])
}

func (n *node) countBlocks(t testing.TB) int {
	t.Helper()
	page, err := n.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now(), Limit: 1})
	must(t, err)
	return page.Total
}

func TestBulkBlockOfMatchingKeysIsUndoneAsOne(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	olu := n.as(t, "olu")
	before := n.countBlocks(t)
	filter := filterOf(t, olu.get("/offenders?pattern=ip:203.0.113.0/24").is(http.StatusOK).holds("All 61 matching keys"))
	form := url.Values{"all": {"yes"}, "filter": {filter}, "back": {"/offenders?min_offences=1"}}
	olu.post("/bulk/add", form).is(http.StatusOK).holds("Block 61 keys").holds(`name="count" value="61"`).lacks(`name="key"`)
	if got := n.countBlocks(t); got != before {
		t.Fatalf("the confirmation page added %d blocks, want none", got-before)
	}
	form.Set("for", "4h")
	form.Set("reason", hostile[0])
	form.Set("count", "60")
	olu.post("/bulk/add", form).is(http.StatusUnprocessableEntity).holds("Nothing was changed: 61 keys match now.")
	form.Set("count", "61")
	done := olu.post("/bulk/add", form).is(http.StatusSeeOther).header.Get("Location")
	if got := n.countBlocks(t); got != before+60 { // the escalation had blocked one of them
		t.Fatalf("%d blocks were added, want 60", got-before)
	}
	for _, key := range []string{"ip:203.0.113.150", "ip:203.0.113.242"} {
		if got := n.decisionOn(t, key); got != "blocked" {
			t.Errorf("the decision on %s is %s, want blocked", key, got)
		}
	}
	if got := n.decisionOn(t, "ip:203.0.113.3"); got == "blocked" {
		t.Error("a key outside the filter is blocked")
	}
	found, err := n.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now(), Search: "203.0.113.150"})
	must(t, err)
	if b := found.Items[0]; b.Source != blocks.Manual || b.Author != "olu" || b.Reason != hostile[0] || !b.Expires.Equal(n.clock.Now().Add(4*time.Hour)) {
		t.Errorf("got the block %+v", b)
	}
	olu.get(done).is(http.StatusOK).holds("Blocked all that matched.").holds(`action="/audit/undo"`)
	entries, err := n.store.Audit.FindRecords(t.Context(), audit.Filter{Action: "block.import", Actor: "olu"})
	must(t, err)
	if len(entries.Records) != 1 || !strings.Contains(done, "ids="+strconv.FormatInt(entries.Records[0].ID, 10)) {
		t.Fatalf("got %d audit records and the redirection %s, want one record with its id in it", len(entries.Records), done)
	}
	olu.post("/audit/undo", url.Values{"id": {strconv.FormatInt(entries.Records[0].ID, 10)}}).is(http.StatusSeeOther)
	if got := n.countBlocks(t); got != before {
		t.Errorf("%d blocks are active after the undo, want %d", got, before)
	}
	olu.post("/bulk/add", url.Values{"all": {"yes"}, "filter": {filter}}).holds("The audit cannot undo this if any block is extended or replaced.")
	olu.post("/bulk/add", url.Values{"key": {"ip:203.0.113.150"}}).holds("Replace them").lacks("cannot undo")
	form.Set("on_conflict", "replace") // which nothing undoes
	done = olu.post("/bulk/add", form).is(http.StatusSeeOther).header.Get("Location")
	olu.get(done).is(http.StatusOK).holds("60 created, 0 extended, 1 replaced").lacks(`action="/audit/undo"`)
}

func TestBulkBlockOfMatchingKeysRejectsInvalidForms(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	olu := n.as(t, "olu")
	filter := filterOf(t, olu.get("/offenders"))
	for name, tc := range map[string]struct {
		form   url.Values
		status int
	}{
		"no filter":       {url.Values{}, http.StatusUnprocessableEntity},
		"no matching key": {url.Values{"filter": {filter + "&search=nobody"}}, http.StatusUnprocessableEntity},
		"an exemption":    {url.Values{"filter": {filter}, "what": {"exempt"}}, http.StatusUnprocessableEntity},
		"unknown policy":  {url.Values{"filter": {filter + "&policy=nothing"}}, http.StatusUnprocessableEntity},
		"invalid expiry":  {url.Values{"filter": {filter}, "count": {"65"}, "for": {"soon"}}, http.StatusUnprocessableEntity},
		"a broken filter": {url.Values{"filter": {"%zz"}}, http.StatusUnprocessableEntity},
	} {
		tc.form.Set("all", "yes")
		before := n.countBlocks(t)
		if got := olu.post("/bulk/add", tc.form); got.status != tc.status || n.countBlocks(t) != before {
			t.Errorf("%s: got the status %d and %d new blocks: %s", name, got.status, n.countBlocks(t)-before, got.shown())
		}
	}
}

func TestOffenderColumnsAreChosenInURL(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	vic := n.as(t, "vic")
	const rule, policy = `<th class="c-rule drop-2">`, `<th class="c-policy drop-2">`
	vic.get("/offenders").is(http.StatusOK).holds(rule).lacks(policy)
	at := vic.get("/offenders?min_offences=2&column=&column=policy&column=state").is(http.StatusSeeOther).header.Get("Location")
	if at != "/offenders?columns=policy%2Cstate&min_offences=2" {
		t.Errorf("got the redirection %s, want the chosen columns in it", at)
	}
	vic.get(at).is(http.StatusOK).lacks(rule).holds(policy).lacks(`<th class="c-sparkline">`).holds(`value="policy" checked`).
		holds("columns=policy%2Cstate&amp;min_offences=2&amp;sort=last") // links keep the choice
	at = vic.get("/offenders?column=").is(http.StatusSeeOther).header.Get("Location")
	vic.get(at).is(http.StatusOK).lacks(rule).lacks(policy).lacks(`<th class="c-state">`).holds(">Offences</a></th>")
	usual := "/offenders?columns=none"
	for _, name := range []string{"allowed", "refused", "rule", "first", "last", "trend", "state"} {
		usual += "&column=" + name
	}
	if at = vic.get(usual).is(http.StatusSeeOther).header.Get("Location"); at != "/offenders" {
		t.Errorf("the default columns redirect to %s, want /offenders", at)
	}
	vic.get("/offenders?columns=" + url.QueryEscape(hostile[0])).is(http.StatusOK).lacks(rule)
}

func TestBulkBlockOfMatchingKeysInBrowser(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	b.do(chromedp.Navigate(n.url + "/offenders"))
	b.do(chromedp.Click(chromedp.CSS("input.row-box")))
	b.waitFor(`document.querySelector("[data-selected]").innerText === "1"`)
	b.do(chromedp.Click(chromedp.CSS("[data-all-matching]")))
	b.waitFor(`document.querySelector("[data-selected]").innerText === "65" && document.querySelector(".one-by-one").offsetParent === null`)
	b.press(".bulk .refuse", "#do")
	b.audit("all matching keys")
	b.write("#reason", "scraping")
	b.press("#do", "[data-toast] button")
	b.waitFor(`document.querySelector("[data-toast]").innerText.includes("Blocked all that matched")`)
	if got := n.decisionOn(t, "ip:203.0.113.150"); got != "blocked" {
		t.Fatalf("the next check is %s, want blocked", got)
	}
	b.press("[data-toast] button", "table.audit")
	if got := n.decisionOn(t, "ip:203.0.113.150"); got == "blocked" {
		t.Fatal("the key is blocked after the undo")
	}
	b.consoleIsClean()
}

func TestUndoOfBulkBlockKeepsEarlierBlocks(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:192.0.2.9", "court order", "jo", blocks.Manual, time.Hour)
	olu := n.as(t, "olu")
	done := olu.post("/bulk/add", url.Values{"key": {"ip:192.0.2.8", "ip:192.0.2.9"}, "for": {"1h"}, "reason": {"x"}, "back": {"/offenders"}}).is(http.StatusSeeOther)
	at, err := url.Parse(done.header.Get("Location"))
	must(t, err)
	undone := strings.Split(at.Query().Get("ids"), ",")
	olu.post("/bulk/end", url.Values{"id": undone, "back": {"/offenders"}, "what": {"block"}}).is(http.StatusSeeOther)
	if left := n.activeBlocks(t); len(undone) != 1 || len(left) != 1 || left[0].Pattern.String() != "ip:192.0.2.9" {
		t.Errorf("ended %q, left %+v, want only the earlier block", undone, left)
	}
}

// Blocking or exempting keys that are blocked or exempt already says what became of it.
func TestBulkWithoutNewEntriesSaysWhatIsDone(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	add := func(what, length, conflict string, keys ...string) *answer {
		form := url.Values{"what": {what}, "key": keys, "for": {length}, "on_conflict": {conflict}, "back": {"/offenders"}}
		return olu.get(olu.post("/bulk/add", form).is(http.StatusSeeOther).header.Get("Location")).is(http.StatusOK).holds("data-toast")
	}
	add("", "1h", "", "ip:192.0.2.8", "ip:192.0.2.9").holds("Blocked 2 keys")
	add("", "1h", "keep", "ip:192.0.2.8", "ip:192.0.2.9").holds("Nothing was changed: each of them has a block of its own.")
	add("", "24h", "extend", "ip:192.0.2.8").holds("Extended the block of").holds(`action="/audit/undo"`)
	add("", "7d", "extend", "ip:192.0.2.8", "ip:192.0.2.9").holds("Each of them was blocked already; such blocks are extended or replaced.")
	add("", "7d", "extend", "ip:192.0.2.7", "ip:192.0.2.9").holds("Blocked <bdi").lacks("extended or replaced")
	add("exempt", "1h", "", "ip:192.0.2.8").holds("Exempted <bdi")
	add("exempt", "1h", "keep", "ip:192.0.2.8").holds("Nothing was changed: each of them has an exemption of its own.")
	add("exempt", "1h", "replace", "ip:192.0.2.8").holds("Each of them was exempt already; such exemptions are extended or replaced.")
}
