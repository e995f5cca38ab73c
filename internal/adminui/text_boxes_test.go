package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/web"
)

// unreadable is a script that returns what cannot be read on a page: pairs of texts that overlap,
// texts that are cut although no title has them whole or they are short, and tables that scroll inside the page.
const unreadable = `(() => {
	const found = new Set(), boxes = [];
	// What all texts inside an element share: whether they are not looked at, and what cuts them, from the inside out.
	const known = new Map([[document.documentElement, {isSkipped: false, cuts: []}]]);
	const around = (e) => {
		if (known.has(e)) return known.get(e);
		const outer = around(e.parentElement), style = getComputedStyle(e), shared = {isSkipped: outer.isSkipped, cuts: outer.cuts};
		if (style.clipPath !== "none" || style.position === "absolute" && e.clientWidth <= 1 || style.position === "fixed" || e.matches(".menu-box, .bulk")) shared.isSkipped = true;
		if (!shared.isSkipped && style.overflowX !== "visible" && style.display !== "inline") {
			const box = e.getBoundingClientRect(), left = box.left + e.clientLeft;
			shared.cuts = [{left, right: left + e.clientWidth, top: box.top, bottom: box.bottom, scrolls: /auto|scroll/.test(style.overflowX), isHigh: style.overflowY !== "visible"}, ...outer.cuts];
		}
		known.set(e, shared);
		return shared;
	};
	const short = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 60));
	const at = (e) => { e = e.closest("td, th, li, p, dd, dt, h1, h2, label, button, a") || e; return e.localName + (typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\s+/g, ".") : ""); };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode());) {
		const e = node.parentElement;
		if (!node.data.trim() || e.closest("dialog, option, script, style, svg, textarea, [hidden]") || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
		const {isSkipped, cuts} = around(e);
		if (isSkipped) continue;
		const range = document.createRange();
		range.selectNodeContents(node);
		for (const r of range.getClientRects()) {
			if (r.width < 1 || r.height < 1) continue;
			const box = {left: r.left, right: r.right, top: r.top, bottom: r.bottom};
			let isCut = false, scrolls = false;
			for (const by of cuts) {
				if (box.left < by.left - 1.5 || box.right > by.right + 1.5) {
					if (by.scrolls) scrolls = true;
					else if (!scrolls) isCut = true;
				}
				box.left = Math.max(box.left, by.left); box.right = Math.min(box.right, by.right);
				if (by.isHigh) {
					box.top = Math.max(box.top, by.top); box.bottom = Math.min(box.bottom, by.bottom);
				}
			}
			const title = (e.closest("[title]") || e.querySelector("[title]"))?.title || "";
			if (isCut && (!node.data.trim().split("…").every((part) => title.includes(part)) || (e.closest("bdi")?.textContent ?? node.data).trim().length <= 20)) found.add("cut: " + short(node.data) + " in " + at(e));
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

// shapes is a script that returns a number for each different element of a page with those around it, by
// what axe looks at: names, classes, roles and whether there is a text or a label. The order of the
// headings and an id that occurs twice count, too.
const shapes = `(() => {
	const found = new Set(), ids = new Set(), headings = [];
	const add = (text) => {
		let a = 0xdeadbeef, b = 0x41c6ce57;
		for (let i = 0; i < text.length; i++) {
			const c = text.charCodeAt(i);
			a = Math.imul(a ^ c, 2654435761); b = Math.imul(b ^ c, 1597334677);
		}
		found.add((b >>> 11) * 4294967296 + (a >>> 0));
	};
	const walk = (e, around) => {
		let shape = around + ">" + e.localName + "." + [...e.classList].sort().join(".");
		for (const { name, value } of e.attributes) {
			if (/^(class|id|style|data-|hx-)/.test(name)) continue;
			shape += " " + name + (/^(role|type|scope|tabindex|hidden|disabled|lang)$|^aria-(?!label|describedby|controls|owns)/.test(name) ? "=" + value : value.trim() ? "" : "=");
		}
		if ([...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) shape += " text";
		add(shape);
		if (e.id && ids.has(e.id)) add("twice " + e.id);
		ids.add(e.id);
		if (/^h[1-6]$/.test(e.localName)) headings.push(e.localName);
		for (const child of e.children) walk(child, shape);
	};
	walk(document.documentElement, "");
	add(headings.join());
	return [...found];
})()`

// axeSeen has the shapes that axe has seen, by the theme.
type axeSeen map[string]map[int64]bool

// audit runs axe on a page that has an element which it has not seen in the theme.
func (a axeSeen) audit(b *browser, theme, name string) {
	b.t.Helper()
	isNew := false
	if a[theme] == nil {
		a[theme] = map[int64]bool{}
	}
	for _, shape := range run(b, chromedp.Evaluate[[]int64](shapes)) {
		isNew = isNew || !a[theme][shape]
		a[theme][shape] = true
	}
	switch {
	case !isNew:
	case theme == "light":
		b.audit(name)
	default:
		b.auditColours(name)
	}
}

// canBeRead loads pages, and tests at several widths and in both themes that their texts can be read: none
// lies over another, and none is cut but a long one that a title has whole. axe looks, wide, at what it has
// not seen in the theme. The widths between are tested in one theme: the other only has other colours, and
// TestThemesDifferInColours keeps it so.
func (b *browser) canBeRead(what string, seen axeSeen, paths []string) {
	b.t.Helper()
	for _, path := range paths {
		b.do(chromedp.EmulateViewport(1440, 900), chromedp.Func(emulate("light")), chromedp.Navigate(b.node.url+path))
		for _, look := range []struct {
			width  int64
			themes []string
		}{
			{2560, []string{"light", "dark"}}, {1920, []string{"dark"}}, {1440, []string{"dark", "light"}}, {1280, []string{"light"}},
			{1024, []string{"light"}}, {768, []string{"light", "dark"}}, {390, []string{"dark", "light"}},
		} {
			b.do(chromedp.EmulateViewport(look.width, 900))
			for _, theme := range look.themes {
				b.do(chromedp.Func(emulate(theme)))
				at := fmt.Sprintf("%s: %s at %d, %s", what, path, look.width, theme)
				found := run(b, chromedp.Evaluate[[]string](unreadable))
				slices.Sort(found)
				for _, one := range found[:min(len(found), 12)] {
					b.t.Errorf("%s: %s", at, one)
				}
				if look.width == 1440 {
					seen.audit(b, theme, at)
				}
				b.picture(what+url.PathEscape(path), look.width, theme)
			}
		}
	}
}

// A sheet that lays out a theme in its own way needs its texts looked at in both.
func TestThemesDifferInColours(t *testing.T) {
	sheet, err := web.Static.ReadFile("static/app.css")
	must(t, err)
	themed := regexp.MustCompile(`prefers-color-scheme|\[data-theme=[^{]*\{[^}]*\}`).FindAllString(string(sheet), -1)
	if len(themed) < 2 {
		t.Fatalf("found %q of the themes", themed)
	}
	colours := regexp.MustCompile(`\{( (color-scheme|color|background): [^:;]+;)* \}$`)
	for _, rule := range themed {
		if !colours.MatchString(rule) {
			t.Errorf("%s has more than colours: have canBeRead look at every width in both themes", rule)
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
	seen := axeSeen{}
	for _, preset := range presets.All() {
		t.Run(preset.Name, func(t *testing.T) {
			n := newNode(t)
			maria := n.as(t, "maria")
			maria.post("/presets/"+preset.Name, url.Values{"mode": {"enforce"}, "confirm": {preset.Name}}).is(http.StatusSeeOther)
			n.useAs(t)
			n.block(t, "ip:203.0.113.200/30", "by hand", "maria", blocks.Manual, 24*time.Hour)
			b := newBrowser(t, n)
			b.do(chromedp.EmulateViewport(1440, 900))
			b.logIn("maria")
			paths := []string{
				"/", "/offenders", "/offenders?columns=all", "/keys/active", "/keys/active?refused=never", "/traffic", "/bots", "/attacks", "/blocks", "/reports/today",
				"/policies", "/presets/" + preset.Name, "/key?key=ip:203.0.113.200", "/key?key=ip:198.51.100.101", "/key?key=ip:203.0.113.66",
			}
			for _, p := range n.catalog.Selector().Policies() {
				paths = append(paths, "/policies/"+p.Name, "/policies/"+p.Name+"/usage")
			}
			if recent, err := n.detection.RecentRefusals(t.Context(), "ip:198.51.100.101", n.clock.Now().Add(-time.Hour), n.clock.Now(), 5); err == nil && len(recent) > 0 {
				paths = append(paths, "/key?refusal="+recent[0].ID.String())
			}
			b.canBeRead(preset.Name, seen, paths)
			b.do(chromedp.Navigate(n.url + "/live"))
			n.useAs(t)
			b.waitFor(`document.querySelectorAll("table.events tbody tr").length > 20`)
			b.canBeRead(preset.Name, seen, []string{"/live"})
			b.consoleIsClean()
		})
	}
	t.Run("others", func(t *testing.T) {
		n := newNode(t)
		n.fillMonitor(t)
		n.block(t, "ip:198.51.100.128/26", "Hosting range, price scraper since July", "maria", blocks.Manual, 7*24*time.Hour)
		b := newBrowser(t, n)
		b.do(chromedp.EmulateViewport(1440, 900))
		b.logIn("maria")
		b.canBeRead("others", seen, []string{"/settings", "/start", "/attacks", "/blocks", "/exemptions/new", "/keys", "/tokens", "/users", "/jobs", "/connect", "/connect/nginx", "/audit", "/proposals", "/notifications", "/bouncers", "/new-policy", "/traffic", "/bots", "/sites", "/lists", "/blocks/sources", "/exemptions"})
		b.consoleIsClean()
	})
}
