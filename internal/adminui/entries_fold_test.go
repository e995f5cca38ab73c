package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/blocks"
)

// TestBlocksOfOneCauseFold finds one row for the blocks that a policy made at once, and one for those of a
// network, each with its number, which opens, and whose box ends all of them.
func TestBlocksOfOneCauseFold(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:203.0.113.200", "price scraper", "maria", blocks.Manual, 9*time.Hour)
	for i := range 4 {
		n.block(t, fmt.Sprintf("ip:203.0.113.%d", 10+i), "price scraper", "maria", blocks.Manual, time.Hour)
	}
	n.block(t, "ip:203.0.113.30", "another reason", "maria", blocks.Manual, time.Hour)
	n.block(t, "ip:203.0.114.1", "price scraper", "maria", blocks.Manual, time.Hour)
	for i := range 3 {
		n.block(t, fmt.Sprintf("ip:198.51.%d.7", 100+i), fmt.Sprintf("%d offences", 300+i), "escalation", blocks.Automatic, time.Duration(60+i)*time.Minute)
	}
	n.clock.advance(20 * time.Minute)
	n.block(t, "ip:198.51.99.7", "a later attack", "escalation", blocks.Automatic, time.Hour)
	rows := func(path string, want int) *answer {
		t.Helper()
		page := n.as(t, "maria").get(path).is(http.StatusOK)
		if got := strings.Count(page.body, `<tr class="tall`); got != want {
			t.Fatalf("%s has %d rows, want %d", path, got, want)
		}
		return page
	}
	page := rows("/blocks", 6).says("4 in ip:203.0.113.0/24").says("3 keys, ip:198.51.102.7 and others").says("the last").says("203.0.113.200").says("11 active")
	page.lacks("203.0.113.12")
	open := linkWith(t, page.body, "/blocks?open=")
	rows(open, 9).says("198.51.100.7").says("302 offences").holds(`aria-expanded="true"`).holds(`aria-expanded="false"`)
	found, err := n.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now(), Search: "203.0.113.12"})
	must(t, err)
	rows("/blocks?edit="+found.Items[0].ID, 9).holds(`id="edit-reason"`) // one of them as a form

	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("maria")
	b.screens("blocks-folded", "/blocks")
	b.screens("blocks-unfolded", open)
	b.show(1440, "/blocks")
	b.do(chromedp.Click(`input.row-box[data-count="4"]`))
	b.waitFor(`document.querySelector(".bulk").innerText.startsWith("4 chosen")`)
	b.consoleIsClean()
	ids := regexp.MustCompile(`value="([^"]+)" data-count="4"`).FindStringSubmatch(page.body)[1]
	n.as(t, "maria").post("/blocks/end", url.Values{"id": {ids}, "bulk": {"yes"}, "back": {"/blocks"}}).is(http.StatusSeeOther)
	rows("/blocks", 5).lacks("203.0.113.0/24")
}
