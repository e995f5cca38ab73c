package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
)

// unreadable is a script that returns what cannot be read on a page: pairs of texts that overlap,
// texts that are cut although no title has them whole or they are short, and tables that scroll inside the page.
const unreadable = `(() => {
	const found = new Set(), boxes = [];
	const short = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 60));
	const at = (e) => { e = e.closest("td, th, li, p, dd, dt, h1, h2, label, button, a") || e; return e.localName + (typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\s+/g, ".") : ""); };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode());) {
		const e = node.parentElement;
		if (!node.data.trim() || e.closest("dialog, option, script, style, svg, textarea, [hidden]") || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
		const range = document.createRange();
		range.selectNodeContents(node);
		for (const r of range.getClientRects()) {
			if (r.width < 1 || r.height < 1) continue;
			let box = {left: r.left, right: r.right, top: r.top, bottom: r.bottom}, isFloating = false, isCut = false, scrolls = false, isHidden = false;
			for (let up = e; up && up !== document.documentElement; up = up.parentElement) {
				const style = getComputedStyle(up);
				if (style.clipPath !== "none" || style.position === "absolute" && up.clientWidth <= 1) isHidden = true;
				if (style.position === "fixed" || up.matches(".menu-box, .bulk")) isFloating = true;
				if (style.overflowX === "visible" || style.display === "inline") continue;
				const outer = up.getBoundingClientRect(), left = outer.left + up.clientLeft, right = left + up.clientWidth;
				if (box.left < left - 1.5 || box.right > right + 1.5) {
					if (/auto|scroll/.test(style.overflowX)) scrolls = true;
					else if (!scrolls) isCut = true;
				}
				box.left = Math.max(box.left, left); box.right = Math.min(box.right, right);
				if (style.overflowY !== "visible") {
					box.top = Math.max(box.top, outer.top); box.bottom = Math.min(box.bottom, outer.bottom);
				}
			}
			if (isHidden || isFloating) continue;
			const title = (e.closest("[title]") || e.querySelector("[title]"))?.title || "";
			if (isCut && (!node.data.trim().split("…").every((part) => title.includes(part)) || node.data.trim().length <= 20)) found.add("cut: " + short(node.data) + " in " + at(e));
			if (box.right - box.left > 1 && box.bottom - box.top > 1) boxes.push({box, node, e});
		}
	}
	boxes.sort((a, b) => a.box.top - b.box.top);
	for (let i = 0; i < boxes.length; i++) {
		for (let j = i + 1; j < boxes.length && boxes[j].box.top < boxes[i].box.bottom; j++) {
			const a = boxes[i], b = boxes[j];
			if (a.node === b.node) continue;
			const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
			const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
			if (wide > 2 && high > 4) found.add("overlap: " + short(a.node.data) + " in " + at(a.e) + " and " + short(b.node.data) + " in " + at(b.e));
		}
	}
	for (const e of document.querySelectorAll(".table-wrap, table")) {
		if (e.checkVisibility() && /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1) found.add("scrolls: " + at(e) + " with " + short(e.innerText));
	}
	return [...found];
})()`

// canBeRead loads pages, and tests in both themes and at several widths that their texts can be
// read: none lies over another, none is cut but a long one that a title has whole, and axe finds nothing.
func (b *browser) canBeRead(what string, paths []string) {
	b.t.Helper()
	for _, path := range paths {
		b.do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(b.node.url+path))
		for _, width := range []int64{2560, 1920, 1440, 1280, 1024, 768, 390} {
			for _, theme := range []string{"light", "dark"} {
				b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(emulate(theme)))
				found := run(b, chromedp.Evaluate[[]string](unreadable))
				slices.Sort(found)
				for _, one := range found[:min(len(found), 12)] {
					b.t.Errorf("%s: %s at %d, %s: %s", what, path, width, theme, one)
				}
				if theme == "light" && width == 1440 {
					b.audit(fmt.Sprintf("%s: %s at %d, %s", what, path, width, theme))
				}
				b.picture(what+url.PathEscape(path), width, theme)
			}
		}
	}
}

// useAs sends the traffic that the rules of the presets are about: many requests, missing pages,
// failed logins, scanners, and clients that do nothing wrong.
func (n *node) useAs(t testing.TB) {
	t.Helper()
	var all []string
	for i := range 6 {
		for range 800 / (i + 1) {
			all = append(all, fmt.Sprintf("ip:203.0.113.%d", 200+i))
		}
		for range 40 {
			all = append(all, fmt.Sprintf("ip:2001:db8:%x:%x::1", 0xabc0+i, i), fmt.Sprintf("token:partner_7d1b9e0aa83c1f4a6b0d55e1_%d", i), "host:assets.example-shop.com")
		}
	}
	n.send(t, all...)
	for i := range 4 {
		key := keytestKey(t, fmt.Sprintf("ip:198.51.100.%d", 100+i))
		for j := range 30 + i {
			request := conditions.NewRequest(fmt.Sprintf("/old-shop/products/%d", j), "GET", "Mozilla/5.0", "")
			var answers [2]gate.Reported
			must(t, n.gate.Report(t.Context(), []gate.Report{{Key: key, Outcome: "not_found", Request: request}, {Key: key, Outcome: "login_failed", Request: request}}, answers[:]))
			n.askFor(t, key.String(), fmt.Sprintf("/old-shop/products/%d", j))
		}
	}
	n.scan(t, time.Second)
	n.clock.advance(2 * time.Minute)
	n.flush(t)
}

func keytestKey(t testing.TB, text string) keys.Key {
	t.Helper()
	key, err := keys.Parser{}.Key(text)
	must(t, err)
	return key
}

func TestTextCanBeReadInBrowser(t *testing.T) {
	for _, preset := range presets.All() {
		t.Run(preset.Name, func(t *testing.T) {
			n := newNode(t)
			maria := n.as(t, "maria")
			maria.post("/presets/"+preset.Name, url.Values{"mode": {"enforce"}, "confirm": {preset.Name}}).is(http.StatusSeeOther)
			n.useAs(t)
			n.block(t, "ip:203.0.113.200/30", "by hand", "maria", blocks.Manual, 24*time.Hour)
			b := newBrowser(t, n)
			b.withAxe()
			b.do(chromedp.EmulateViewport(1440, 900))
			b.logIn("maria")
			paths := []string{
				"/", "/offenders", "/offenders?columns=all", "/keys/active", "/keys/active?refused=never", "/traffic", "/bots", "/attacks", "/blocks", "/blocks/sources", "/settings", "/policies", "/new-policy", "/presets/" + preset.Name, "/key?key=ip:203.0.113.200", "/key?key=ip:198.51.100.101", "/key?key=ip:203.0.113.66", "/reports/today",
			}
			for _, p := range n.catalog.Selector().Policies() {
				paths = append(paths, "/policies/"+p.Name, "/policies/"+p.Name+"/usage")
			}
			if recent, err := n.detection.RecentRefusals(t.Context(), "ip:198.51.100.101", n.clock.Now().Add(-time.Hour), n.clock.Now(), 5); err == nil && len(recent) > 0 {
				paths = append(paths, "/key?refusal="+recent[0].ID.String())
			}
			b.canBeRead(preset.Name, paths)
			b.do(chromedp.Navigate(n.url + "/live"))
			n.useAs(t)
			b.waitFor(`document.querySelectorAll("table.events tbody tr").length > 20`)
			b.canBeRead(preset.Name, []string{"/live"})
			b.consoleIsClean()
		})
	}
	t.Run("others", func(t *testing.T) {
		n := newNode(t)
		n.fillMonitor(t)
		n.block(t, "ip:198.51.100.128/26", "Hosting range, price scraper since July", "maria", blocks.Manual, 7*24*time.Hour)
		b := newBrowser(t, n)
		b.withAxe()
		b.do(chromedp.EmulateViewport(1440, 900))
		b.logIn("maria")
		b.canBeRead("others", []string{"/settings", "/start", "/attacks", "/blocks", "/exemptions/new", "/keys", "/tokens", "/users", "/jobs", "/connect", "/connect/nginx", "/audit", "/proposals", "/notifications", "/bouncers", "/new-policy", "/traffic", "/bots", "/sites", "/lists", "/blocks/sources", "/exemptions"})
		b.consoleIsClean()
	})
}
