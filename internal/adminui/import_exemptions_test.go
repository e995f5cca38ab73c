package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

func (n *node) activeExemptions(t testing.TB) []*blocks.Entry {
	t.Helper()
	page, err := n.store.Entries.Find(context.Background(), blocks.Filter{Kind: blocks.Exemption, At: n.clock.Now(), Limit: 1000})
	must(t, err)
	return page.Items
}

func TestExemptionImportIsPreviewedThenConfirmed(t *testing.T) {
	n, olu := mixedNode(t)
	olu.get("/exemptions").is(http.StatusOK).holds(`href="/exemptions/import"`)
	tried := olu.upload("/exemptions/import", "list.txt", mixed, importFields).is(http.StatusOK).
		holds("<dt>New</dt><dd><b>3</b>").holds("Unchanged</dt><dd>1<").lacks("so without effect").lacks("Traffic they would have refused").
		holds(`<td class="num fit" data-label="Line">5</td>`).holds("Skip 1 invalid row and exempt 3 patterns").holds(`action="/exemptions/import/confirm"`)
	if got := len(n.activeExemptions(t)); got != 1 {
		t.Fatalf("%d exemptions are active after the dry run, want 1", got)
	}
	form := url.Values{"file": {tried.held()}}
	olu.post("/blocks/import/confirm", form).is(http.StatusConflict) // it is held for exemptions only
	olu.post("/exemptions/import/confirm", form).is(http.StatusUnprocessableEntity).holds("1 of the 5 rows is invalid")
	form.Set("skip_bad", "yes")
	olu.post("/exemptions/import/confirm", form).is(http.StatusOK).holds("3 exemptions").holds(`href="/exemptions"`).
		holds("/audit?object=exemption&amp;action=exemption.import")
	all := n.activeExemptions(t)
	if len(all) != 4 || len(n.activeBlocks(t)) != 1 {
		t.Fatalf("%d exemptions and %d blocks are active, want 4 and 1", len(all), len(n.activeBlocks(t)))
	}
	for _, e := range all {
		if e.Source == blocks.Imported && (e.Reason != "abuse list" || e.Author != "olu" || !e.Expires.Equal(n.clock.Now().Add(24*time.Hour))) {
			t.Errorf("got the imported exemption %+v", e)
		}
	}
	entry := n.entries(t, audit.Filter{Action: "exemption.import"})[0]
	olu.get("/audit?object=exemption&action=exemption.import").holds(undoButton(entry.ID))
	olu.post("/audit/undo", undo(entry.ID)).is(http.StatusSeeOther)
	if got := len(n.activeExemptions(t)); got != 1 {
		t.Errorf("%d exemptions are active after the undo, want 1", got)
	}
	vic := n.as(t, "vic")
	vic.get("/exemptions").lacks("/exemptions/import")
	vic.get("/exemptions/import").is(http.StatusForbidden)
}

// The files that both pages export go back into their own page, and into no other.
func TestExportsOfPagesAreImportedAsTheSameKindOnly(t *testing.T) {
	n, olu := mixedNode(t)
	for path, other := range map[string]string{"/blocks": "/exemptions", "/exemptions": "/blocks"} {
		file := olu.get(path + "/export").is(http.StatusOK).body
		olu.upload(path+"/import", "export.csv", file, importFields).is(http.StatusOK).holds("Nothing would change.").lacks("Invalid rows")
		olu.upload(other+"/import", "export.csv", file, importFields).is(http.StatusOK).holds("Invalid rows").
			holds(`<td class="num fit" data-label="Line">2</td>`).holds("Nothing would change.")
	}
	if len(n.activeExemptions(t)) != 1 || len(n.activeBlocks(t)) != 1 {
		t.Error("the dry runs changed something")
	}
}

func TestBroadExemptionsAreConfirmedInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	b.do(chromedp.Navigate(n.url + "/exemptions/import"))
	b.write("#list", "10.0.0.0/15\n203.0.113.1\n")
	b.do(chromedp.Click(chromedp.CSS(`label:has(input[name="for"][value="7d"])`)))
	b.press("#try", "#confirm-broad")
	b.inspect("exemptions-import-tried", "")
	if got := len(n.activeExemptions(t)); got != 0 {
		t.Fatalf("%d exemptions are active after the preview", got)
	}
	b.write("#confirm-broad", "ip:10.0.0.0/15")
	b.press("#confirm", `a[href="/exemptions"].main`)
	b.inspect("exemptions-imported", "")
	if got := len(n.activeExemptions(t)); got != 2 {
		t.Errorf("%d exemptions are active, want 2", got)
	}
	b.consoleIsClean()
}
