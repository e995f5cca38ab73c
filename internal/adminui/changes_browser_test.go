package adminui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

func TestSaveAndDiscardButtonsAreEnabledOnlyAfterChanges(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("maria")
	value := func(expression string) bool { return run(b, chromedp.Evaluate[bool]("Boolean("+expression+")")) }
	const save, discard = `document.querySelector("[value=save]")`, `document.querySelector("a[data-after-change]")`

	t.Run("a policy", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(n.url + "/policies/default"))
		b.waitFor(save + ".disabled && " + discard + ".hidden")
		before := run(b, chromedp.Evaluate[string](`document.querySelector("[name=limit]").value`))
		b.write("[name=limit]", "77")
		b.waitFor("!" + save + ".disabled && !" + discard + ".hidden")
		b.write("[name=limit]", before)
		b.waitFor(save + ".disabled && " + discard + ".hidden")
		b.write("[name=limit]", "77")
		b.waitFor(`document.querySelector("#save-note").textContent.includes("not saved")`)
		b.do(chromedp.Click(chromedp.CSS("[value=save]")))
		b.waitFor(`document.querySelector("#save-note").textContent.includes("Version 2 is active")`)
		if !value(save + ".disabled") {
			t.Error("the save button is enabled after saving")
		}
	})
	t.Run("a block", func(t *testing.T) {
		b.t = t
		p, err := n.catalog.Parser().Pattern("ip:203.0.113.9")
		must(t, err)
		added, err := n.store.Entries.Add(context.Background(), audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: p, Reason: "before"})
		must(t, err)
		b.do(chromedp.Navigate(n.url + "/blocks?edit=" + added[0].Entry.ID))
		const change = `document.querySelector("button[data-after-change]")`
		b.waitFor(change + ".disabled")
		b.write("#edit-reason", "after")
		b.waitFor("!" + change + ".disabled")
		b.press("button[data-after-change]", "[data-toast] button")
		b.press("[data-toast] button", "table.audit")
		now, err := n.store.Entries.ByID(context.Background(), blocks.Block, added[0].Entry.ID)
		must(t, err)
		if now.Reason != "before" || !strings.Contains(b.text(), "Undone.") {
			t.Errorf("the reason is %q after the undo, the page shows %s", now.Reason, b.text())
		}
	})
	t.Run("the search field is wide enough", func(t *testing.T) {
		b.t = t
		for _, width := range []int64{768, 1024} {
			b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(n.url+"/offenders"))
			b.waitFor(`document.querySelector("[data-goto]")`)
			if got := run(b, chromedp.Evaluate[int](`document.querySelector("[data-goto]").offsetWidth`)); got < 180 {
				t.Errorf("at %d the search field is %d pixels wide, want at least 180", width, got)
			}
			if over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth")); over > 0 {
				t.Errorf("at %d the page is %d pixels too wide", width, over)
			}
		}
	})
	t.Run("the audit finds logins", func(t *testing.T) {
		v := n.as(t, "vic")
		v.get("/audit?object=login").is(http.StatusOK).holds("logged in.").lacks("203.0.113.9")
		must(t, n.store.Audit.AddRecord(t.Context(), audit.Record{
			Actor: audit.SystemActor("escalation"), Action: "escalation.pause", Object: "policy", ObjectID: "default", Summary: "Stopped blocking.",
		}))
		v.get("/audit?object=escalation").is(http.StatusOK).holds("Stopped blocking.").lacks("logged in.")
		v.get("/audit?object=block").is(http.StatusOK).holds("203.0.113.9").lacks("logged in.")
	})
}
