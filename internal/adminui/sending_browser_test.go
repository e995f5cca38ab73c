package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/blocks"
)

// refresh makes a page bring itself up to date, and waits for it.
func (b *browser) refresh() {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`window.isRefreshed = false;
		document.addEventListener("htmx:afterRequest", () => { window.isRefreshed = true }, { once: true });
		htmx.trigger("#live", "refresh")`))
	b.waitFor(`window.isRefreshed`)
}

// mouse presses or releases the button of the mouse at a point.
func mouse(kind input.DispatchMouseEventType, x, y float64) func(context.Context, *chromedp.Target) error {
	return func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: "left", ClickCount: 1})
		return err
	}
}

func TestRefreshKeepsButtonThatWasPressed(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	n.block(t, "ip:192.0.2.1", "", "", blocks.Automatic, time.Hour)
	b.show(1440, "/")
	const button = `document.querySelector('button[aria-label="Unblock ip:192.0.2.1"]')`
	b.waitFor(button)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#live").dataset.refresh = 1e9; window.clicks = [];
		document.addEventListener("click", event => window.clicks.push(event.target.getAttribute("aria-label")))`))

	// A new block moves the row while the mouse is pressed on its button.
	b.do(chromedp.Evaluate[chromedp.Void](button + `.scrollIntoView()`))
	at := run(b, chromedp.Evaluate[[]float64](`(box => [box.x + box.width / 2, box.y + box.height / 2])(`+button+`.getBoundingClientRect())`))
	b.do(chromedp.Func(mouse("mousePressed", at[0], at[1])))
	n.clock.advance(time.Second)
	n.block(t, "ip:192.0.2.2", "", "", blocks.Automatic, time.Hour)
	b.refresh()
	b.waitFor(`document.querySelector('button[aria-label="Unblock ip:192.0.2.2"]')`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.addEventListener("submit", event => event.preventDefault(), { capture: true, once: true })`))
	b.do(chromedp.Func(mouse("mouseReleased", at[0], at[1])))
	for _, label := range run(b, chromedp.Evaluate[[]string](`window.clicks.map(String)`)) {
		if label == "Unblock ip:192.0.2.2" {
			t.Error("the mouse was pressed on the button of one block and clicks that of another")
		}
	}

	// Another one comes before the form is sent.
	b.show(1440, "/")
	b.waitFor(button)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#live").dataset.refresh = 1e9; (() => {
		const real = window.fetch;
		window.fetch = async (...request) => { await new Promise(answer => { window.answer = answer }); return real(...request) };
	})()`))
	b.do(chromedp.Click(chromedp.CSS(`button[aria-label="Unblock ip:192.0.2.1"]`)))
	b.waitFor(`window.answer`)
	n.clock.advance(time.Second)
	n.block(t, "ip:192.0.2.3", "", "", blocks.Automatic, time.Hour)
	b.refresh()
	b.do(chromedp.Evaluate[chromedp.Void](`window.answer()`))
	b.waitFor(`document.querySelector("[data-toast]")?.innerText.includes("Ended the block of")`)
	b.says("Ended the block of ip:192.0.2.1")
	for _, e := range n.activeBlocks(t) {
		if e.Pattern.String() == "ip:192.0.2.1" {
			t.Error("the block is active whose button was pressed")
		}
	}
	if all := n.activeBlocks(t); len(all) != 2 {
		t.Errorf("%d blocks are active, want the 2 whose buttons were not pressed", len(all))
	}
	b.consoleIsClean()
}

// TestPreviewKeepsButtonThatWasPressed presses the button of a form while the answer to the
// form's last change, which replaces the button, comes.
func TestPreviewKeepsButtonThatWasPressed(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	const (
		days   = `document.querySelector('input[name="for"][value="7d"]')`
		button = `document.querySelector("#add-button")`
	)
	choose := func() { // and wait for the preview
		t.Helper()
		b.do(chromedp.Evaluate[chromedp.Void](`window.isRefreshed = false;
			document.addEventListener("htmx:afterRequest", () => { window.isRefreshed = true }, { once: true });
			` + days + `.click()`))
		b.waitFor(`window.isRefreshed`)
	}

	// The answer comes while the mouse is pressed.
	b.show(1440, "/exemptions/new?pattern=ip:192.0.2.1")
	b.waitFor(button)
	b.do(chromedp.Evaluate[chromedp.Void](button + `.scrollIntoView()`))
	at := run(b, chromedp.Evaluate[[]float64](`(box => [box.x + box.width / 2, box.y + box.height / 2])(`+button+`.getBoundingClientRect())`))
	b.do(chromedp.Func(mouse("mousePressed", at[0], at[1])))
	choose()
	b.do(chromedp.Func(mouse("mouseReleased", at[0], at[1])))
	b.waitFor(`document.querySelector("[data-toast]")`)
	b.says("ip:192.0.2.1")

	// The answer comes before the form is sent.
	b.show(1440, "/exemptions/new?pattern=ip:192.0.2.2")
	b.waitFor(button)
	b.do(chromedp.Evaluate[chromedp.Void](days + `.checked = true; (() => {
		const real = window.fetch;
		window.fetch = async (...request) => { await new Promise(answer => { window.answer = answer }); return real(...request) };
	})()`))
	b.do(chromedp.Click(chromedp.CSS("#add-button")))
	b.waitFor(`window.answer`)
	b.do(chromedp.Evaluate[chromedp.Void](days + `.checked = false`))
	choose()
	b.do(chromedp.Evaluate[chromedp.Void](`window.answer()`))
	b.waitFor(`document.querySelector("[data-toast]")`)
	b.says("ip:192.0.2.2")

	// It is asked for again once the mouse, which was moved away, is released.
	b.show(1440, "/exemptions/new?pattern=ip:192.0.2.3")
	b.waitFor(button)
	b.do(chromedp.Func(mouse("mousePressed", at[0], at[1])))
	choose()
	b.do(chromedp.Func(mouse("mouseReleased", 1, 1)))
	b.waitFor(`document.querySelector("#preview time")`)
	b.consoleIsClean()
}

func TestDoubleClickSendsOnce(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("maria")
	b.show(1440, "/tokens")
	b.write("#token-name", "gateway")
	// The page stays as it does until the answer has come.
	b.do(chromedp.Evaluate[chromedp.Void](`window.sent = 0; window.asked = 0; (() => {
		const real = window.fetch;
		window.fetch = (...request) => { window.asked++; return real(...request) };
		document.addEventListener("submit", event => { if (!event.defaultPrevented) { window.sent++; event.preventDefault() } });
	})()`))
	const create = `form[action="/tokens"] .button.main`
	b.do(chromedp.Click(chromedp.CSS(create)))
	b.waitFor(`window.sent === 1`)
	b.do(chromedp.Click(chromedp.CSS(create)))
	if asked := run(b, chromedp.Evaluate[int](`window.asked`)); asked != 1 {
		t.Error("the second click sends the form again")
	}
	b.write("#token-name", "gateway2") // somebody stopped the request and goes on
	b.do(chromedp.Click(chromedp.CSS(create)))
	b.waitFor(`window.sent === 2`)
}

func TestRefreshKeepsFocusInRowThatMoves(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/offenders?sort=last")
	const rows = `[...document.querySelectorAll("tr[data-key]")]`
	b.waitFor(rows + `.length > 3`)
	key := run(b, chromedp.Evaluate[string](`(row => { row.querySelector("a").focus(); return row.dataset.key })(`+rows+`[3])`))
	n.clock.advance(30 * time.Second)
	for range 30 {
		n.send(t, key)
	}
	n.flush(t)
	b.refresh()
	b.waitFor(rows + `[0].dataset.key === "` + key + `"`)
	if focused := run(b, chromedp.Evaluate[string](`document.activeElement.closest("tr")?.dataset.key || "nothing"`)); focused != key {
		t.Errorf("the focus is on %s after the row has moved, want %s", focused, key)
	}
	b.consoleIsClean()
}

func TestRefreshKeepsVersionOfTypedForm(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	const key = "token:customer"
	b.show(1440, "/key?key="+key)
	const expect = `document.querySelector('form[action="/key/profile"] [name=expect]').value`
	b.waitFor(`document.querySelector("#plan-labels")`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#live").dataset.refresh = 1e9; document.querySelector("#plan-labels").closest("details").open = true`))
	tag := run(b, chromedp.Evaluate[string](expect))
	b.write("#plan-labels", "vip")
	n.as(t, "maria").post("/key/profile", url.Values{"key": {key}, "expect": {tag}, "labels": {"abuser"}, "back": {"/"}}).is(http.StatusSeeOther)
	b.refresh()
	b.do(chromedp.Click(chromedp.CSS(`form[action="/key/profile"] .button`)))
	b.waitFor(`document.querySelector("h1").innerText.includes("changed this key") || document.querySelector("[data-toast]")`)
	b.says("maria changed this key", "abuser")
}
