package adminui_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

func TestOffendersPageTriage(t *testing.T) {
	n := newNode(t)
	for i := range 5 {
		for range 30 - i {
			n.ask(t, "ip:198.51.100."+strconv.Itoa(i+1))
		}
	}
	n.flush(t)
	add := func(kind blocks.Kind, text string) {
		p, err := n.catalog.Parser().Pattern(text)
		must(t, err)
		_, err = n.store.Entries.Add(context.Background(), audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: kind, Pattern: p})
		must(t, err)
	}
	add(blocks.Block, "ip:198.51.100.2")
	add(blocks.Exemption, "ip:198.51.100.3")
	must(t, n.catalog.Refresh(context.Background()))

	t.Run("without JavaScript", func(t *testing.T) {
		v := n.as(t, "olu")
		for path, want := range map[string]string{
			"/offenders": "1 2 3 4 5", "/offenders?state=open": "1 4 5", "/offenders?state=blocked": "2", "/offenders?state=exempt": "3",
			"/offenders?sort=key": "1 2 3 4 5", "/offenders?state=open&sort=last": "",
		} {
			got := v.get(path).is(http.StatusOK).holds(`>All&nbsp;<span class="muted">5<`).holds(`>Open&nbsp;<span class="muted">3<`)
			if want == "" {
				continue
			}
			for i := range 5 {
				is, row := strings.Contains(" "+want+" ", " "+strconv.Itoa(i+1)+" "), `data-key="ip:198.51.100.`+strconv.Itoa(i+1)+`"`
				if strings.Contains(got.body, row) != is {
					t.Errorf("%s shows key %d: %v, want %v", path, i+1, !is, is)
				}
			}
		}
		v.get("/offenders").holds("Hide handled")
		v.get("/offenders?state=open").holds("Show handled").lacks("data-all-matching")
		v.get("/offenders?state=blocked&search=nothing").holds("No key is blocked.")
		v.get("/offenders?state=other").is(http.StatusUnprocessableEntity)
	})
	t.Run("with keyboard shortcuts", func(t *testing.T) {
		b := newBrowser(t, n)
		b.logIn("olu")
		b.do(chromedp.Navigate(n.url + "/offenders?state=open"))
		b.waitFor(`document.querySelectorAll("tr[data-key]").length === 3`)
		b.do(chromedp.KeyEvent("?"))
		b.waitFor(`document.querySelector("#shortcuts[open]")`)
		b.do(chromedp.Click(chromedp.CSS("#shortcuts [data-close]")))
		b.waitFor(`!document.querySelector("#shortcuts[open]")`)
		b.do(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
		b.do(chromedp.KeyEvent("jjjk"))
		b.waitFor(`document.activeElement.closest("tr").dataset.key === "ip:198.51.100.4"`)
		b.do(chromedp.KeyEvent("x"))
		b.waitFor(`document.querySelector("[data-selected]").textContent === "1"`)
		b.do(chromedp.KeyEvent("b"))
		b.waitFor(`location.pathname === "/bulk/add" && document.body.innerText.includes("198.51.100.4")`)
		b.consoleIsClean()
	})
	t.Run("with shortcuts of a single key switched off", func(t *testing.T) {
		b := newBrowser(t, n)
		b.logIn("olu")
		open := func() {
			b.do(chromedp.Navigate(n.url + "/offenders?state=open"))
			b.waitFor(`document.querySelectorAll("tr[data-key]").length === 3`)
		}
		change := func() {
			b.do(chromedp.Click(chromedp.CSS(".side > .foot [data-shortcuts]")))
			b.waitFor(`document.querySelector("#shortcuts[open]") && document.activeElement.innerText === "Close"`)
			b.do(chromedp.Click(chromedp.CSS("#shortcuts [data-single-keys-off]")), chromedp.Click(chromedp.CSS("#shortcuts [data-close]")))
			b.waitFor(`!document.querySelector("#shortcuts[open]")`)
			open() // the browser remembers it
			b.do(chromedp.KeyEvent("/j?"))
		}
		open()
		change()
		b.waitFor(`document.activeElement === document.body && !document.querySelector("#shortcuts[open]")`)
		change() // "/" goes to the field, so the others are text
		b.waitFor(`document.activeElement.matches("[data-goto]") && document.activeElement.value.endsWith("j?")`)
	})
}

// Browsers send a form by its first button when Enter is pressed in one of its boxes.
func TestEnterInBoxEndsChosenBlocksOnly(t *testing.T) {
	n := newNode(t)
	for _, text := range []string{"ip:192.0.2.1", "ip:192.0.2.2"} {
		n.block(t, text, "", "maria", blocks.Manual, time.Hour)
	}
	b := newBrowser(t, n)
	b.logIn("olu")
	last := func(press, then string) []*blocks.Entry {
		b.show(1440, "/blocks")
		b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("input.row-box")].at(-1).focus()`), chromedp.KeyEvent(press))
		b.waitFor(then)
		return n.activeBlocks(t)
	}
	if left := last("\r", `document.querySelector("h1").innerText === "Invalid input"`); len(left) != 2 {
		t.Fatalf("%d blocks are active after Enter in a box that is not chosen, want both", len(left))
	}
	if left := last(" \r", `document.querySelector("[data-toast] button")`); len(left) != 1 || left[0].Pattern.String() != "ip:192.0.2.2" {
		t.Errorf("active are %v after Enter in the chosen box of ip:192.0.2.1, want the other block", left)
	}
}

func TestFocusStaysWhenListIsReplaced(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:192.0.2.1", "", "maria", blocks.Manual, time.Hour)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/blocks")
	press := func(text, then string) {
		t.Helper()
		b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#list a")].find(a => a.innerText.startsWith("`+text+`")).focus()`), chromedp.KeyEvent("\r"))
		b.waitFor(then)
	}
	focus := func() string {
		return run(b, chromedp.Evaluate[string](`document.activeElement.innerText.slice(0, 40)`))
	}
	for text, then := range map[string]string{"Ends": `location.search.includes("expiry")`, "Manual": `location.search.includes("manual")`} {
		press(text, then+` && document.querySelector("#list .htmx-settling, #list.htmx-settling") === null`)
		if got := focus(); !strings.HasPrefix(got, text) {
			t.Errorf("the focus is on %q after %s was chosen", got, text)
		}
	}
	press("Edit", `document.activeElement.id === "edit-reason"`)
	press("Cancel", `document.querySelector("#edit-reason") === null`)
	if got := focus(); got != "Edit" {
		t.Errorf("the focus is on %q after Cancel, want Edit", got)
	}
	b.consoleIsClean()
}

// Rows keep their places while somebody is about to press one, and the focus is not lost
// with a row that goes.
func TestRefreshHoldsRowsThatAreUsed(t *testing.T) {
	n := newNode(t)
	charge := func(host, checks int) {
		for range checks {
			n.ask(t, "ip:198.51.100."+strconv.Itoa(host))
		}
		n.flush(t)
	}
	charge(1, 40)
	charge(2, 30)
	charge(3, 20)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/offenders?pattern=ip:198.51.100.0/24")
	b.do(chromedp.EmulateViewport(1440, 400))
	refresh := func() { b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`)) }
	const order = `[...document.querySelectorAll("table.offenders tr[data-key]")].map(row => row.dataset.key.slice(-1)).join("")`
	b.waitFor(order + ` === "123"`)
	top := `document.querySelector("tr[data-key$='2']").getBoundingClientRect().top`
	before := run(b, chromedp.Evaluate[float64](top))
	b.do(chromedp.Func(pointAt(b, "tr[data-key$='2'] a.plain")))
	charge(3, 60)
	charge(4, 90)
	n.pauseEscalation(t) // shown above the list
	refresh()
	b.waitFor(`document.querySelector("tr[data-key$='3'] .sorted").innerText > "70" && document.body.innerText.includes("it would block")`)
	if got := run(b, chromedp.Evaluate[string](order)); got != "123" {
		t.Errorf("the rows are in the order %s while the pointer is on one, want 123", got)
	}
	if after := run(b, chromedp.Evaluate[float64](top)); after != before {
		t.Errorf("the row below the pointer moved from %v to %v", before, after)
	}
	b.do(chromedp.Func(pointAt(b, "h1")))
	refresh()
	b.waitFor(order + ` === "4312"`)

	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("tr[data-key$='1'] input.row-box").click()`))
	charge(1, 200)
	refresh()
	b.waitFor(`document.querySelector("tr[data-key$='1'] .sorted").innerText > "200"`)
	if got := run(b, chromedp.Evaluate[string](order)); got != "4312" {
		t.Errorf("the rows are in the order %s while a box is chosen, want 4312", got)
	}

	b.show(1440, "/offenders?state=open&pattern=ip:198.51.100.0/24")
	b.waitFor(order + ` === "1432"`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("tr[data-key$='4'] a.plain").focus()`))
	n.block(t, "ip:198.51.100.4", "", "maria", blocks.Manual, time.Hour)
	refresh()
	b.waitFor(order + ` === "132" && document.activeElement.closest("tr")?.dataset.key === "ip:198.51.100.3"`)
	b.consoleIsClean()
}

func TestTypedReasonStaysWhenNoticeAboveGoes(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/key?key=ip:198.51.100.99")
	b.says("Never seen.")
	b.write("#reason", "seen at a partner")
	n.send(t, "ip:198.51.100.99")
	n.flush(t)
	b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`))
	b.waitFor(`!document.body.innerText.includes("Never seen.")`)
	b.waitFor(`document.activeElement.value === "seen at a partner"`)
	b.consoleIsClean()
}

// An overview that shows an outage must not say beside it that all services are OK.
func TestRefreshUpdatesStatesAndCountsInFrame(t *testing.T) {
	var isLost atomic.Bool
	n := newNode(t, func(d *adminui.Deps) {
		d.Ready = func(context.Context) wire.Readiness {
			return wire.Readiness{Parts: []wire.Part{{Name: "log", OK: !isLost.Load()}}}
		}
	})
	n.attack(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/")
	b.says("All services OK")
	isLost.Store(true)
	n.block(t, "ip:198.51.100.4", "", "maria", blocks.Manual, time.Hour)
	count := strconv.Itoa(n.catalog.Blocks().Size(blocks.Block))
	b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`))
	b.waitFor(`document.querySelector(".side > .foot").innerText.includes("The timestamp log is unreachable")`)
	b.saysNot("All services OK")
	b.waitFor(`document.querySelector(".nav-link[href^='/blocks'] .nav-count").innerText === ` + strconv.Quote(count))
	isLost.Store(false)
	b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`))
	b.waitFor(`document.querySelector(".side > .foot").innerText.includes("All services OK")`)
	b.show(390, "/")
	b.saysNot("Degraded")
	isLost.Store(true)
	b.do(chromedp.Evaluate[chromedp.Void](`htmx.trigger("#live", "refresh")`))
	b.waitFor(`document.querySelector(".side-top").innerText.includes("Degraded")`)
	b.consoleIsClean()
}
