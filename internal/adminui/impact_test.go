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

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/blocks"
)

func TestPagesRequireConfirmationsOfImpactPreview(t *testing.T) {
	traffic := trafficOf{"ip:203.0.113.1": 0.02, "ip:192.0.2.1": 0.98}
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = traffic })
	olu := n.as(t, "olu")
	entries := &admin.Entries{View: n.catalog, Traffic: traffic, Now: n.clock.Now}
	for _, text := range []string{
		"*", "ip:*", "token:*", "token:test_*", "ip:10.0.0.0/15", "ip:10.0.0.0/16", "ip:203.0.113.0/24", "ip:203.0.113.1", "ip:2001:db8::/31", "ip:2001:db8::/32", "token:a",
	} {
		i, err := entries.Preview(context.Background(), admin.Caller{Address: netip.MustParseAddr("127.0.0.1")}, blocks.Block, text, false)
		must(t, err)
		form := url.Values{"pattern": {text}, "for": {"1h"}}
		got := olu.post("/blocks", form)
		if i.ConfirmReason == "" {
			got.is(http.StatusSeeOther)
			continue
		}
		got.is(http.StatusUnprocessableEntity).holds(html.EscapeString(i.ConfirmReason))
		// Blocking it from a list requires the same confirmation.
		act := olu.post("/bulk/add", url.Values{"key": {text}, "for": {"1h"}, "reason": {"scraping"}}).is(http.StatusSeeOther)
		at := act.header.Get("Location")
		if !strings.HasPrefix(at, "/blocks/new?") {
			t.Fatalf("blocking %s redirects to %s, want the form", text, at)
		}
		olu.get(at).is(http.StatusOK).holds(`value="scraping"`).holds(`id="confirm"`).holds(`value="1h" checked`)
		olu.post("/bulk/add", url.Values{"key": {text, "token:other"}, "for": {"1h"}}).is(http.StatusConflict).holds("Nothing was changed")
		form.Set("confirm", text)
		olu.post("/blocks", form).is(http.StatusSeeOther)
	}
	for text, broad := range map[string]bool{"ip:203.0.113.0/24": false, "token:*": true} {
		want := http.StatusSeeOther
		if broad {
			want = http.StatusUnprocessableEntity
		}
		olu.post("/exemptions", url.Values{"pattern": {text}, "for": {"1h"}}).is(want)
	}
}

func TestBlockPreviewDrawsAffectedAddresses(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for range 30 {
		n.ask(t, "ip:198.51.100.7")
	}
	n.ask(t, "ip:198.51.3.9")
	n.ask(t, "ip:2001:db8:7:100::1")
	n.clock.advance(2 * time.Minute) // the minute must be over
	n.flush(t)
	for address, parts := range map[string][]string{
		"ip:198.51.0.0/16": {
			"Its 256 ranges of 256 addresses: 1 offend, 1 were only allowed, 254 were not seen in the last day.",
			"Of 2 keys seen in the last day, <b>1 had no offence</b>", "198.51.100.0/24: 29 offences, 1 allowed", "198.51.3.0/24: 0 offences, 1 allowed",
			`class="grid-marked" x="80" y="120"`, // 198.51.100.0/24 is the fifth of the seventh row
		},
		"ip:198.51.100.0/24":   {"Its 256 addresses: 1 offend, 0 were only allowed, 255 were not seen in the last day."},
		"ip:198.51.100.0/28":   {"Its 16 addresses: 1 offend"},
		"ip:198.48.0.0/12":     {"Its 256 ranges of 4,096 addresses: 1 offend, 1 were only allowed, 254"},
		"ip:2001:db8:7::/48":   {"Its 256 ranges of /56: 0 offend, 1 were only allowed, 255"},
		"ip:2001:db8:7::/58":   {"Its 64 networks of /64: 0 offend, 0 were only allowed, 64 were not seen"},
		"ip:198.51.100.128/25": {"No key in it was seen in the last day."},
	} {
		page := olu.get("/blocks/new?pattern=" + address).is(http.StatusOK)
		for _, part := range parts {
			page.holds(part)
		}
	}
	for _, none := range []string{"ip:198.51.100.0/29", "ip:198.51.100.7", "token:a", "*", "ip:*"} {
		olu.get("/blocks/new?pattern=" + url.QueryEscape(none)).is(http.StatusOK).lacks(`class="grid"`)
	}
	olu.get("/blocks/new?pattern=ip:198.0.0.0/8").is(http.StatusOK).holds("To confirm all 16,777,216 addresses, type ip:198.0.0.0/8")
}

func TestBlockPreviewSuggestsNarrowerRange(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for i, k := range []string{"ip:198.51.100.7", "ip:198.51.100.9", "ip:198.51.7.1"} {
		for range []int{60, 60, 22}[i] {
			n.ask(t, k)
		}
	}
	n.flush(t)
	n.clock.advance(time.Minute)
	seen, err := n.store.Offences.Seen(context.Background(), pattern(t, "ip:198.51.0.0/16"), start.Add(-time.Hour), n.clock.Now(), 10)
	must(t, err)
	if seen.Refused == 0 {
		t.Fatal("no check was refused")
	}
	olu.get("/policies").is(http.StatusOK).holds(`class="sparkline"`).holds("At most " + strconv.FormatInt(seen.Refused, 10) + " in 2 min.")
	form := url.Values{"pattern": {"ip:198.51.0.0/16"}, "reason": {"scraping"}, "for": {"4h"}}
	olu.post("/blocks/new", form).is(http.StatusOK).holds(`name="narrow" value="ip:198.51.100.0/24"`)
	form.Set("narrow", "ip:198.51.100.0/24")
	olu.post("/blocks/new", form).is(http.StatusOK).holds(`name="pattern" value="ip:198.51.100.0/24"`).
		holds(`value="scraping"`).holds(`value="4h" checked`).lacks(`name="narrow"`)
	olu.post("/blocks/new", url.Values{"pattern": {"ip:198.51.7.0/24"}, "for": {"4h"}}).is(http.StatusOK).holds(`name="narrow" value="ip:198.51.7.1"`)
}

// A block until a time that is missing or over cannot be made, and is not permanent.
func TestBlockPreviewWithoutEndDoesNotShowPermanent(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for until, want := range map[string]string{
		"": "Enter a day and a time in UTC as YYYY-MM-DD hh:mm.", "tomorrow": "Enter a day and a time in UTC as YYYY-MM-DD hh:mm.", "2001-01-01 00:00": "future",
	} {
		olu.post("/blocks/new", url.Values{"pattern": {"192.0.2.1"}, "for": {"until"}, "until": {until}}).is(http.StatusOK).says(want).lacks("Never expires")
	}
	olu.post("/blocks/new", url.Values{"pattern": {"192.0.2.1"}, "for": {"good"}}).is(http.StatusOK).says("Never expires")
}
