package adminui_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

// A request that is refused is shown so, whatever a shadow policy says of it.
func TestKeyPageShowsRefusalsBesideAShadowPolicy(t *testing.T) {
	const key = "ip:192.0.2.20"
	n := newNode(t)
	n.put(t, rules.Policy{Name: "default", Match: []keys.Pattern{pattern(t, "*")}}, "2/h")
	n.put(t, rules.Policy{Name: "trial", Match: []keys.Pattern{pattern(t, "ip:*")}, Mode: rules.Shadow}, "1/h")
	n.put(t, rules.Policy{Name: "misses", Outcome: "not_found"}, "1/h")
	for range 3 {
		n.askFor(t, key, "/")
	}
	n.report(t, key, "not_found", 2)
	n.as(t, "olu").get("/key?key=" + key).says("1 of its last 3 requests refused; 3 asked for /; 2 reports beside them")
	requests, _, _ := strings.Cut(n.as(t, "olu").get("/key?key="+key).is(http.StatusOK).body, "<h2>Rules</h2>")
	_, requests, _ = strings.Cut(requests, "<h2>Requests</h2>")
	if shown := strings.Count(requests, "Shadow by 1/h"); shown != 1 || strings.Count(requests, "Limited by 2/h") != 1 {
		t.Errorf("%d requests are shown as refused in shadow mode, want 1 beside one refused by 2/h: %s", shown, requests)
	}
}

// TestKeyPageShowsWhatTheKeyDid finds the requests of a key above the rules, harmless, and the rules of
// all policies in one table, the one that refuses first and then the fullest.
func TestKeyPageShowsWhatTheKeyDid(t *testing.T) {
	const key, hostile = "ip:192.0.2.20", "/<img src=x onerror=alert(1)>"
	n := newNode(t)
	n.put(t, rules.Policy{Name: "default", Match: []keys.Pattern{pattern(t, "*")}}, "3/h")
	n.put(t, rules.Policy{Name: "slow", When: when(t, []string{"/search"}, nil)}, "100/h")
	v := n.as(t, "olu")
	v.get("/key?key=" + key).is(http.StatusOK).lacks("<h2>Requests</h2>")
	for range 2 {
		n.askFor(t, key, "/search?q=secret")
		n.clock.advance(time.Second)
	}
	n.askFor(t, key, hostile)
	n.askFor(t, key, "/search")
	page := v.get("/key?key=" + key).is(http.StatusOK)
	page.says("1 of its last 4 requests refused; 3 asked for /search").says("Limited by 3/h of policy default").lacks("secret").lacks("<img src=x")
	order := []string{`class="big verdict"`, ">Block…<", "<h2>Requests</h2>", "&lt;img src=x", "<h2>Rules</h2>", "limiting now", "100/h", "<h2>Requests that count</h2>", "<h2>Block this key</h2>"}
	at := 0
	for _, text := range order {
		next := strings.Index(page.body[at:], text)
		if next < 0 {
			t.Fatalf("the page does not show %q below the part before it", text)
		}
		at += next
	}
	if tables := strings.Count(page.body, `class="lines used"`); tables != 1 {
		t.Errorf("%d tables of rules, want 1", tables)
	}
	n.flush(t)
	n.clock.advance(2 * time.Hour)
	n.as(t, "olu").get("/key?key=" + key).is(http.StatusOK).lacks("<h2>Requests</h2>")

	b := newBrowser(t, n)
	b.withAxe()
	for range 12 {
		n.askFor(t, key, "/search/"+strings.Repeat("very-long-path/", 9))
	}
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	b.screens("key-requests", "/key?key="+key)
	b.consoleIsClean()
}

// TestLiveFoldsEqualDecisions finds one row for the equal decisions on a key, with their number, in an
// answer and in the browser as more arrive.
func TestLiveFoldsEqualDecisions(t *testing.T) {
	n := newNode(t)
	n.put(t, rules.Policy{Name: "default", Match: []keys.Pattern{pattern(t, "*")}}, "1/h")
	v := n.as(t, "vic")
	v.get("/live").is(http.StatusOK)
	for range 6 {
		n.askFor(t, "ip:192.0.2.20", "/search")
		n.askFor(t, "ip:192.0.2.21", "/other")
	}
	page := v.get("/live?show=refused").is(http.StatusOK).says("192.0.2.20 × 5 /search").says("192.0.2.21 × 5 /other")
	if rows := strings.Count(page.body, "data-same="); rows != 2 {
		t.Errorf("%d rows, want one for each key", rows)
	}
	v.get("/live?path=/sea*").is(http.StatusOK).says("/search").lacks("/other").holds(`data-stream="/v1/events?path=%2Fsea%2A"`)
	v.get("/live?path=search").is(http.StatusUnprocessableEntity)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("vic")
	b.do(chromedp.Navigate(n.url + "/live?show=refused"))
	n.askFor(t, "ip:192.0.2.20", "/search")
	b.waitFor(`[...document.querySelectorAll("tr[data-same]")].length === 2 && document.querySelector("tr[data-same] .times").textContent.includes("× 6")`)
}

// TestLiveCutsLongPaths shows the beginning of long paths, and a row of its own for each that differs
// only in its end.
func TestLiveCutsLongPaths(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/live").is(http.StatusOK)
	long := "/" + strings.Repeat("long", 100)
	for _, end := range []string{"/a", "/b", "/b"} {
		n.askFor(t, "ip:192.0.2.22", long+end)
	}
	page := v.get("/live").is(http.StatusOK).holds(`title="` + long + `/b"`).lacks(">" + long)
	if rows := strings.Count(page.body, "data-same="); rows != 2 {
		t.Errorf("%d rows, want 2", rows)
	}
}

// The requests of a key name a policy that is deleted since, without a link to its page.
func TestKeyPageLinksToPoliciesThatExist(t *testing.T) {
	n := newNode(t)
	n.put(t, rules.Policy{Name: "default", Match: []keys.Pattern{pattern(t, "*")}}, "9/h")
	n.put(t, rules.Policy{Name: "gone", Match: []keys.Pattern{pattern(t, "ip:192.0.2.0/24")}}, "1/h")
	v := n.as(t, "vic")
	n.askFor(t, "ip:192.0.2.20", "/a")
	v.get("/key?key=ip:192.0.2.20").is(http.StatusOK).holds(`href="/policies/gone">gone</a></td>`)
	must(t, n.store.Policies.DeletePolicy(t.Context(), storetest.Operator, "gone", etag.Any))
	v.get("/key?key=ip:192.0.2.20").is(http.StatusOK).holds(`<td class="c-policy">gone</td>`).lacks(`/policies/gone`)
}

// The page of an address shows the passes that came from there, and that of a pass says what it is.
func TestKeyPageShowsPasses(t *testing.T) {
	n := newNode(t)
	n.put(t, rules.Policy{Name: "site", Match: []keys.Pattern{pattern(t, "ip:*")}, OnLimit: rules.ChallengeOnLimit}, "100/h")
	const address, pass = "ip:192.0.2.20", "pass:00112233445566778899aabbccddeeff"
	key := func(text string) keys.Key {
		k, err := keys.Parser{}.Key(text)
		must(t, err)
		return k
	}
	ask := func(of string) {
		c := gate.Check{Key: key(address), Cost: 1}
		if of != "" {
			c.Pass = key(of)
		}
		if _, err := n.gate.Check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	v := n.as(t, "olu")
	ask("")
	v.get("/key?key=" + address).is(http.StatusOK).lacks("<h2>Passes</h2>")
	for _, of := range []string{pass, pass, "pass:ffeeddccbbaa99887766554433221100"} {
		ask(of)
	}
	v.get("/key?key=" + address).is(http.StatusOK).holds("<h2>Passes</h2>").holds(`pass%3A00112233445566778899aabbccddeeff"`).holds("ffeeddccbbaa99887766554433221100")
	v.get("/key?key=" + pass).is(http.StatusOK).says("This is the pass of a browser that has solved a challenge").says("A block of this key ends it")
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("olu")
	b.screens("key-passes", "/key?key="+address)
	b.consoleIsClean()
}
