package adminui_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestMonitorScreens tests the monitor pages as TestScreens tests
// the others.
func TestMonitorScreens(t *testing.T) {
	n := newNode(t)
	n.fillMonitor(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("maria")
	n.fillLive(t)
	for name, path := range n.monitorPages(t) {
		b.screens(name, path)
	}
	b.consoleIsClean()
}

func TestAttackerIsBlockedAndUnblockedInBrowser(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	b.do(chromedp.Navigate(n.url + "/"))
	b.waitFor(`document.querySelector("h1").innerText.startsWith("Refusing ") && document.querySelector(".lead").innerText.includes("203.0.113.0/24")`)
	b.do(chromedp.Navigate(n.url + "/offenders?search=client"))
	b.do(chromedp.Navigate(n.url + "/offenders?pattern=ip:203.0.113.0/24"))
	const key = "ip:203.0.113.150"
	if got := n.decisionOn(t, key); got == "blocked" {
		t.Fatalf("%s is %s before the block", key, got)
	}
	b.do(chromedp.Click(chromedp.CSS(`input[value="` + key + `"]`)))
	b.waitFor(`document.querySelector("[data-selected]").innerText === "1" && Number(document.querySelector("[data-selected-offences]").innerText) > 0`)
	b.press(`.bulk .refuse`, "#do")
	b.write("#reason", hostile[1])
	b.press("#do", "[data-toast] button")
	if got := n.decisionOn(t, key); got != "blocked" {
		t.Fatalf("the next check after the block is %s, want blocked", got)
	}
	b.waitFor(`document.querySelector('tr[data-key="` + key + `"]').innerText.includes("left")`)
	b.press(`[data-toast] button`, "[data-toast] button")
	b.waitFor(`document.querySelector("[data-toast]").innerText.includes("Ended the block")`)
	if got := n.decisionOn(t, key); got == "blocked" {
		t.Fatal("the key is blocked after the block was undone")
	}
	b.do(chromedp.Click(chromedp.CSS(`[data-toast] button`)))
	b.waitFor(`document.querySelector("[data-toast]")?.innerText.includes("Restored the block")`)
	if got := n.decisionOn(t, key); got != "blocked" {
		t.Fatalf("the next check after the block was restored is %s, want blocked", got)
	}
	b.consoleIsClean()
}

func TestLivePageFollowsStreamAndKeepsFocus(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("vic")
	b.do(chromedp.Navigate(n.url + "/live"))
	b.waitFor(`document.body.innerText.includes("No events yet.")`)
	b.waitFor(`document.querySelector("[data-age-text]").innerText === "Live"`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#live").dataset.refresh = 1e9`)) // only the stream sends new events
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=policy]").focus()`))
	n.send(t, "token:seen", "token:seen")
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 2`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("table.events a").focus(); document.querySelector("table.events tr[data-key]").marked = true`))
	n.send(t, "token:later")
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 3`)
	b.waitFor(`document.activeElement.closest("tr")?.innerText.includes("seen")`)
	b.do(chromedp.Click(chromedp.CSS("[data-pause]")))
	b.waitFor(`document.querySelector("[data-age-text]").innerText === "Paused"`)
	n.send(t, "token:unseen")
	b.do(chromedp.Click(chromedp.CSS("[data-pause]")))
	b.waitFor(`document.querySelectorAll("table.events tbody tr").length === 4`)
	b.consoleIsClean()
}

func TestDraggingOverTheChartZooms(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("vic")
	b.do(chromedp.Navigate(n.url + "/"))
	b.waitFor(`document.querySelector(".brush-range") && !document.querySelector(".brush-range").hidden`)
	b.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const brush = document.querySelector("[data-brush]"), box = brush.getBoundingClientRect();
		const at = (type, share) => new PointerEvent(type, { bubbles: true, button: 0, clientX: box.left + box.width * share, clientY: box.top + 20 });
		brush.dispatchEvent(at("pointerdown", 0.25));
		document.dispatchEvent(at("pointermove", 0.5));
		document.dispatchEvent(at("pointerup", 0.5));
	})()`))
	b.waitFor(`document.querySelector("[data-selection-text]").innerText.includes("selected") && !document.querySelector("[data-clear]").hidden`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".brush-handle.to").focus(); window.before = document.querySelector(".brush-handle.to").getAttribute("aria-valuetext");
		document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }))`))
	b.waitFor(`document.querySelector(".brush-handle.to").getAttribute("aria-valuetext") > window.before`)
	// Less than one point of the chart is selected, and its counts are not left out.
	b.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const figure = document.querySelector("[data-areas]"), brush = document.querySelector("[data-brush]"), box = brush.getBoundingClientRect();
		const from = Number(figure.dataset.from), to = Number(figure.dataset.to);
		window.point = figure.dataset.points.split(" ").map((p) => p.split(",").map(Number)).filter((p) => p[0] >= from && p[0] + 60000 < to && p[2] > 0)[0];
		const at = (type, ms) => new PointerEvent(type, { bubbles: true, button: 0, clientX: box.left + box.width * (window.point[0] + ms - from) / (to - from), clientY: box.top + 20 });
		brush.dispatchEvent(at("pointerdown", 15000));
		document.dispatchEvent(at("pointermove", 45000));
		document.dispatchEvent(at("pointerup", 45000));
	})()`))
	b.waitFor(`document.querySelector("[data-selection-text]").innerText.includes("selected: " + window.point[2].toLocaleString("en") + " refused")`)
	b.do(chromedp.Click(chromedp.CSS("[data-zoom]")))
	b.waitFor(`location.search.includes("since=") && document.querySelector(".custom[data-custom]")`)
	b.consoleIsClean()
}

func TestTimeRangeThatEndsBeforeItBeginsIsRefusedBesideItsField(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("vic")
	b.do(chromedp.Navigate(n.url + "/offenders"))
	set := func(name, value string) {
		t.Helper()
		b.do(chromedp.Evaluate[chromedp.Void](`(() => {
			document.querySelector(".custom").open = true;
			const field = document.querySelector("#` + name + `");
			field.value = "` + value + `";
			field.dispatchEvent(new Event("input", { bubbles: true }));
			document.querySelector(".custom .button.main").click();
		})()`))
	}
	set("until", "2020-01-01T00:00")
	b.waitFor(`document.querySelector("#until").validationMessage === "The end must be after the beginning." && !location.search.includes("until")`)
	set("since", "2019-12-31T23:00")
	b.waitFor(`location.search.includes("until")`)
	b.consoleIsClean()
}
