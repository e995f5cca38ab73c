package adminui_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones, where the system has none

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/blocks"
)

// zone sets the time zone of the browser's system.
func (b *browser) zone(name string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
		return err
	}))
}

// TestTimesAreShownInTimeZoneOfBrowser compares every time on every page with
// the one that Go computes.
func TestTimesAreShownInTimeZoneOfBrowser(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	styles := map[string]int{}
	b := timesInIndia(t, n, func() map[string]string { return n.pages(t) }, styles)
	b.do(chromedp.Navigate(n.url + "/blocks"))
	b.do(chromedp.Click(chromedp.CSS(`.side > .foot [data-times=utc]`)))
	b.waitFor(`document.querySelector(".page-zone").innerText === "Times are in UTC."`)
	after := b.times()
	b.do(chromedp.Navigate(n.url + "/blocks"))
	b.waitFor(`!document.querySelector("[data-utc]") && document.querySelector(".page-zone").innerText === "Times are in UTC."`)
	if loaded := b.times(); !slices.Equal(after, loaded) {
		t.Errorf("the page has the times %v after switching to UTC, and %v when it is loaded again", after, loaded)
	}
	watch := newNode(t)
	watch.fillMonitor(t)
	watched := timesInIndia(t, watch, func() map[string]string {
		watch.fillLive(t)
		pages := watch.monitorPages(t)
		pages["overview-3d"] = "/?last=3d"
		return pages
	}, styles)
	watched.do(chromedp.Navigate(watch.url + "/key?key=ip:203.0.113.150"))
	watched.audit("local times")
	b.consoleIsClean()
	watched.consoleIsClean()
	for _, style := range []string{"clock", "weekday", "day", "short", "second", "instant", "milli", "day-milli", "date-milli"} {
		if styles[style] == 0 {
			t.Errorf("no page has a time of the style %s: %v", style, styles)
		}
	}
}

// timesInIndia chooses local times and checks all of them on pages.
func timesInIndia(t *testing.T, n *node, pages func() map[string]string, styles map[string]int) *browser {
	t.Helper()
	india, err := time.LoadLocation("Asia/Kolkata")
	must(t, err)
	b := newBrowser(t, n)
	b.zone("Asia/Kolkata")
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	b.waitFor(`!document.querySelector("[data-utc]") && document.querySelector(".page-zone").innerText === "Times are in UTC."`)
	b.do(chromedp.Click(chromedp.CSS(`.side > .foot [data-times=local]`)))
	b.waitFor(`/^Times are in GMT\+5:30, the time of Asia\/(Kolkata|Calcutta)\.$/.test(document.querySelector(".page-zone").innerText)`)
	widths := []int64{390, 1440}
	if *shots != "" {
		widths = []int64{390, 768, 1440, 1920}
	}
	for name, path := range pages() {
		b.do(chromedp.Navigate(n.url + path))
		b.waitFor(`document.querySelector("[data-times=local][aria-pressed=true]") || !document.querySelector("[data-times]")`)
		for _, place := range b.times() {
			at, err := time.Parse(time.RFC3339, place.At)
			must(t, err)
			if want := at.In(india).Format("15:04"); !strings.Contains(place.Text, want) {
				t.Errorf("%s: %s in the style %s is %q, want it to contain %s", name, place.At, place.Style, place.Text, want)
			}
			if place.Title != "" && !strings.Contains(place.Title, at.UTC().Format("15:04:05 UTC")) {
				t.Errorf("%s: the title of %s is %q, want it in UTC", name, place.At, place.Title)
			}
			if place.Zoned && !strings.HasSuffix(place.Text, " GMT+5:30") {
				t.Errorf("%s: %q has no time zone", name, place.Text)
			}
			styles[place.Style]++
		}
		for _, width := range widths {
			b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(emulate("light")))
			if over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth")); over > 0 {
				t.Errorf("%s at %d: the page is %d pixels too wide", name, width, over)
			}
			b.picture("local-"+name, width, "light")
			if *shots != "" {
				b.do(chromedp.Func(emulate("dark")))
				b.picture("local-"+name, width, "dark")
			}
		}
	}
	b.do(chromedp.EmulateViewport(1440, 900), chromedp.Func(emulate("light")))
	return b
}

// timeOnPage is a time as a page has it.
type timeOnPage struct {
	At, Style, Text, Title string
	Zoned                  bool
}

func (b *browser) times() []timeOnPage {
	b.t.Helper()
	return run(b, chromedp.Evaluate[[]timeOnPage](`[...document.querySelectorAll("[data-style]")].map((e) => ({
		At: e.dataset.at || e.closest("time").dateTime, Style: e.dataset.style, Text: e.textContent,
		Title: e.dataset.at ? "" : e.closest("time").title, Zoned: e.dataset.zoned !== undefined }))`))
}

// TestTimesAcrossDaylightSavingChange adds blocks that end around the next two changes
// of daylight saving time: a time at another offset than the current one has its zone.
func TestTimesAcrossDaylightSavingChange(t *testing.T) {
	n := newNode(t)
	newYork, err := time.LoadLocation("America/New_York")
	must(t, err)
	for at, changes := start.Truncate(time.Hour), 0; changes < 2; at = at.Add(time.Hour) {
		if at.Add(-time.Second).In(newYork).Format("MST") == at.In(newYork).Format("MST") {
			continue
		}
		changes++
		for minutes := -90; minutes <= 90; minutes += 60 {
			ends := at.Add(time.Duration(minutes) * time.Minute)
			n.block(t, "token:change"+strconv.Itoa(changes)+"at"+strconv.Itoa(minutes+90), "", "maria", blocks.Manual, ends.Sub(n.clock.Now()))
		}
	}
	b := newBrowser(t, n)
	b.zone("America/New_York")
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	b.do(chromedp.Click(chromedp.CSS(`.side > .foot [data-times=local]`)))
	zone := time.Now().In(newYork).Format("MST")
	b.waitFor(`document.querySelector(".page-zone").innerText === "Times are in ` + zone + `, the time of America/New_York."`)
	b.waitFor(`document.querySelector("#list [data-zone]").innerText === "` + zone + `"`)
	found := map[string]int{}
	for _, place := range b.times() {
		at, err := time.Parse(time.RFC3339, place.At)
		must(t, err)
		want := at.In(newYork).Format("15:04")
		if name := at.In(newYork).Format("MST"); name != zone {
			if !strings.Contains(place.Text, at.In(newYork).Format("2 Jan")) {
				t.Errorf("%s is %q, want the day in it", place.At, place.Text)
			}
			want = at.In(newYork).Format("15:04 ") + name
			found[name]++
		} else {
			found[zone]++
		}
		if !strings.HasSuffix(place.Text, want) {
			t.Errorf("%s is %q, want the suffix %s", place.At, place.Text, want)
		}
	}
	if found["EST"] < 4 || found["EDT"] < 4 {
		t.Errorf("the list has times of the zones %v, want at least 4 of EST and EDT", found)
	}
	b.consoleIsClean()
}

// TestTimesOfRefreshingPages has the server send times in UTC to a
// page in another zone: it must never show them.
func TestTimesOfRefreshingPages(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.zone("Asia/Kolkata")
	b.logIn("olu")
	b.do(chromedp.Click(chromedp.CSS(`.side > .foot [data-times=local]`)))
	b.do(chromedp.Navigate(n.url + "/live"))
	b.waitFor(`document.querySelector("[data-age-text]").innerText === "Live"`)
	const watch = `window.seen = []; new MutationObserver(() => { for (const e of document.querySelectorAll("[data-style]"))
		if (e.textContent === e.dataset.utc || !e.dataset.utc) seen.push(e.outerHTML); }).observe(document.body, { subtree: true, childList: true, characterData: true })`
	b.do(chromedp.Evaluate[chromedp.Void](watch))
	n.send(t, "token:first", "token:second")
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 2 && document.querySelectorAll("table.events tbody [data-utc]").length === 2`)
	n.send(t, "token:third")
	b.waitFor(`document.querySelectorAll("table.events tbody [data-utc]").length === 3`)
	if seen := run(b, chromedp.Evaluate[[]string]("seen")); len(seen) > 0 {
		t.Errorf("the page showed times in UTC: %v", seen)
	}
	b.do(chromedp.Navigate(n.url + "/"))
	b.waitFor(`document.querySelector("h1 [data-utc]") && document.querySelector("h1").innerText.includes("GMT+5:30, ")`)
	b.do(chromedp.Evaluate[chromedp.Void](watch + `; document.querySelector("#live").dataset.refresh = 100`))
	headline := run(b, chromedp.Evaluate[string](`document.querySelector("h1").innerText`))
	n.clock.advance(time.Minute)
	b.waitFor(`document.querySelector("h1").innerText !== ` + strconv.Quote(headline))
	if seen := run(b, chromedp.Evaluate[[]string]("seen")); len(seen) > 0 {
		t.Errorf("the page showed times in UTC: %v", seen)
	}
	b.consoleIsClean()
}
