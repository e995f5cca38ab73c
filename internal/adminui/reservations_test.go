package adminui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/algorithms"
)

// wait asks for a reservation of a key and returns how many milliseconds ahead it is.
func (n *node) wait(t testing.TB, key string) int64 {
	t.Helper()
	body, err := json.Marshal(map[string]string{"key": key, "max_wait": "10m"})
	must(t, err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, n.checks+"/v1/check", bytes.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	var got struct {
		Allowed bool  `json:"allowed"`
		WaitMS  int64 `json:"delay_ms"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&got))
	if !got.Allowed {
		t.Fatalf("a check with max_wait was refused with the status %d", response.StatusCode)
	}
	return got.WaitMS
}

// shows checks that a page shows the texts, ignoring white space.
func (b *browser) shows(parts ...string) {
	b.t.Helper()
	text := strings.Join(strings.Fields(b.text()), " ")
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.t.Errorf("the page does not show %q: %s", part, text)
		}
	}
}

// look audits the page and saves pictures of it in both themes, narrow and wide.
func (b *browser) look(name string) {
	b.t.Helper()
	for _, width := range []int64{1440, 390} {
		b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(emulate("light")))
		b.audit(fmt.Sprintf("%s at %d, light", name, width))
		b.picture(name, width, "light")
		b.do(chromedp.Func(emulate("dark")))
		b.auditColours(fmt.Sprintf("%s at %d, dark", name, width))
		b.picture(name, width, "dark")
	}
	b.do(chromedp.EmulateViewport(1440, 900))
}

const waitingKey = "ip:203.0.113.7"

func TestKeyPageShowsReservationsAheadInBrowser(t *testing.T) {
	n := newNode(t)
	n.count(t, algorithms.TimestampLog, algorithms.Options{}, "1/10s", "20/h")
	b := newBrowser(t, n)
	b.logIn("maria")
	n.ask(t, waitingKey)
	n.clock.advance(2 * time.Second)
	if first, second := n.wait(t, waitingKey), n.wait(t, waitingKey); first != 8000 || second != 18000 {
		t.Fatalf("the reservations are %d and %d ms ahead, want 8000 and 18000", first, second)
	}
	n.ask(t, waitingKey) // refused: it would precede the reservations
	n.flush(t)
	b.do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(n.url+"/key?key="+waitingKey))
	b.shows("Limited by 1/10 s", "2 reservations lie ahead, the last at "+clockAt(20*time.Second)+" UTC. The next request that does not wait is allowed in 28 s, at "+clockAt(30*time.Second)+" UTC",
		"reservation made ahead", "Next without waiting, "+clockAt(30*time.Second))
	if ahead := run(b, chromedp.Evaluate[int](`document.querySelectorAll(".timeline > svg .ahead").length`)); ahead != 2 {
		t.Errorf("%d reservations are drawn ahead, want 2", ahead)
	}
	if counts := run(b, chromedp.Evaluate[int](`document.querySelectorAll(".timeline > svg .counts").length`)); counts != 1 {
		t.Errorf("%d requests are drawn before now, want 1", counts)
	}
	b.look("key-reservations")
	b.do(chromedp.Click(chromedp.CSS(`.latest-refusals a, a[href*="refusal="]`)))
	b.waitFor(`location.search.includes("refusal=")`)
	b.shows("when the reservation made for " + start.Add(20*time.Second).Format("2 Jan, 15:04:05.000") + " no longer counted")
	b.consoleIsClean()
}

func TestKeyPageLimitedByReservationsNamesNoRule(t *testing.T) {
	n := newNode(t)
	n.count(t, algorithms.TimestampLog, algorithms.Options{}, "1/10s")
	v := n.as(t, "maria")
	n.ask(t, waitingKey)
	n.clock.advance(2 * time.Second)
	if ahead := n.wait(t, waitingKey); ahead != 8000 {
		t.Fatalf("the reservation is %d ms ahead, want 8000", ahead)
	}
	n.count(t, algorithms.TimestampLog, algorithms.Options{}, "5/10s") // below the limit, but no request precedes a reservation
	n.ask(t, waitingKey)
	n.flush(t)
	page := v.get("/key?key=" + waitingKey).is(http.StatusOK)
	page.holds("by the reservations of policy").holds("<b>1 reservation</b> lies ahead, the last at <b>").holds(">" + clockAt(10*time.Second) + " UTC</time></b>").holds("in <b>8 s</b>").lacks("decides now")
}

func TestKeyPageUnderCounterShowsRemainingWithoutTimeline(t *testing.T) {
	n := newNode(t)
	n.count(t, algorithms.GCRA, algorithms.Options{Burst: 3}, "20/m", "800/d")
	b := newBrowser(t, n)
	b.logIn("maria")
	b.do(chromedp.EmulateViewport(1440, 900))
	for range 2 {
		n.ask(t, waitingKey)
	}
	b.do(chromedp.Navigate(n.url + "/key?key=" + waitingKey))
	b.shows("1 request allowed now", "counted by generic cell rate algorithm, burst 3", "2 of 3 1 Free now",
		"The policy default keeps counts and not the times of requests, so there is no timeline.")
	for range 3 {
		n.ask(t, waitingKey)
	}
	n.flush(t)
	b.do(chromedp.Navigate(n.url + "/key?key=" + waitingKey))
	b.shows("Limited by 800/day", "3 of 3 0 In 1 min 48 s")
	if drawn := run(b, chromedp.Evaluate[int](`document.querySelectorAll(".timeline").length`)); drawn != 0 {
		t.Errorf("the page has %d timelines, want none under a counter", drawn)
	}
	b.look("key-gcra")
	b.do(chromedp.Click(chromedp.CSS(`a[href*="refusal="]`)))
	b.waitFor(`location.search.includes("refusal=")`)
	b.shows("The retry time under the rule 800/day comes from no single request")
	b.audit("a refusal under a counter")
	b.consoleIsClean()
}

func TestKeyPageUnderQueueExplainsSpacing(t *testing.T) {
	n := newNode(t)
	n.count(t, algorithms.LeakyBucket, algorithms.Options{Variant: algorithms.VariantQueue}, "20/m")
	v := n.as(t, "maria")
	v.get("/key?key=" + waitingKey).is(http.StatusOK).holds("The next request is allowed now, and the others follow one by one.").holds("one after the other, one every 3 s").lacks("more at once")
	n.ask(t, waitingKey)
	v.get("/key?key=" + waitingKey).is(http.StatusOK).holds("<b>Limited</b>").holds("In 3 s")
}
