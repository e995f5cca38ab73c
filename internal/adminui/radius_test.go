package adminui_test

import (
	"context"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/blocklist"
)

func TestThePagesAskForTheConfirmationsThatTheAPIAsksFor(t *testing.T) {
	traffic := trafficOf{"ip:203.0.113.1": 0.02, "ip:192.0.2.1": 0.98}
	n := newNode(t, func(d *adminui.Deps) { d.Traffic = traffic })
	olu := n.as(t, "olu")
	survey := &blocklist.Surveyor{View: n.catalog, Parser: n.catalog.Parser, Traffic: traffic, Now: n.clock.Now}
	for _, text := range []string{
		"*", "ip:*", "token:*", "token:test_*", "ip:10.0.0.0/15", "ip:10.0.0.0/16", "ip:203.0.113.0/24", "ip:203.0.113.1", "ip:2001:db8::/31", "ip:2001:db8::/32", "a",
	} {
		p := pattern(t, text)
		r, err := survey.Survey(context.Background(), p, netip.MustParseAddr("127.0.0.1"))
		must(t, err)
		form := url.Values{"pattern": {text}, "for": {"1h"}}
		got := olu.post("/blocks", form)
		if r.Confirm == "" {
			got.is(http.StatusSeeOther)
			continue
		}
		got.is(http.StatusUnprocessableEntity).holds(html.EscapeString(r.Confirm))
		// Whoever blocks it from a list is led to the same question.
		act := olu.post("/act/block", url.Values{"key": {text}, "for": {"1h"}, "reason": {"scraping"}}).is(http.StatusSeeOther)
		at := act.header.Get("Location")
		if !strings.HasPrefix(at, "/blocks/new?") {
			t.Fatalf("%s leads to %s", text, at)
		}
		olu.get(at).is(http.StatusOK).holds(`value="scraping"`).holds("To go on, type").holds(`value="1h" checked`)
		olu.post("/act/block", url.Values{"key": {text, "token:other"}, "for": {"1h"}}).is(http.StatusConflict).holds("Nothing was changed")
		form.Set("confirm", text)
		olu.post("/blocks", form).is(http.StatusSeeOther)
	}
	for text, wide := range map[string]bool{"ip:203.0.113.0/24": false, "token:*": true} {
		want := http.StatusSeeOther
		if wide {
			want = http.StatusUnprocessableEntity
		}
		olu.post("/exemptions", url.Values{"pattern": {text}, "for": {"1h"}}).is(want)
	}
}

func TestANarrowerRangeThatStopsMostIsOfferedInstead(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for i, k := range []string{"ip:198.51.100.7", "ip:198.51.100.9", "ip:198.51.7.1"} {
		for range []int{60, 60, 22}[i] {
			n.ask(t, k)
		}
	}
	n.flush(t)
	n.clock.advance(time.Minute)
	seen, err := n.store.Seen(context.Background(), pattern(t, "ip:198.51.0.0/16"), start.Add(-time.Hour), n.clock.Now(), 10)
	must(t, err)
	if seen.Refused == 0 {
		t.Fatal("nobody was refused")
	}
	olu.get("/policies").is(http.StatusOK).holds(`class="spark"`).holds("At most " + strconv.FormatInt(seen.Refused, 10) + " in 2 min.")
	form := url.Values{"pattern": {"ip:198.51.0.0/16"}, "reason": {"scraping"}, "for": {"4h"}}
	olu.post("/blocks/new", form).is(http.StatusOK).holds(`name="narrow" value="ip:198.51.100.0/24"`)
	form.Set("narrow", "ip:198.51.100.0/24")
	olu.post("/blocks/new", form).is(http.StatusOK).holds(`name="pattern" value="ip:198.51.100.0/24"`).
		holds(`value="scraping"`).holds(`value="4h" checked`).lacks(`name="narrow"`)
	olu.post("/blocks/new", url.Values{"pattern": {"ip:198.51.7.0/24"}, "for": {"4h"}}).is(http.StatusOK).holds(`name="narrow" value="ip:198.51.7.1"`)
}
