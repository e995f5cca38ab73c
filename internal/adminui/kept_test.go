package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
)

// A block of one scope must not become one of every check where it is brought back.
func TestABlockOfAScopeKeepsItOnItsWayBack(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.post("/blocks", url.Values{"pattern": {"ip:*"}, "scope": {"login"}, "reason": {"stop logins"}, "for": {"24h"}, "confirm": {"ip:*"}}).is(http.StatusSeeOther)
	found, err := n.store.Entries.Find(context.Background(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now()})
	must(t, err)
	if found.Total != 1 || found.Items[0].Scope != "login" {
		t.Fatalf("got %+v", found.Items)
	}
	lines := strings.Split(maria.get("/blocks/export").is(http.StatusOK).body, "\n")
	if !strings.HasSuffix(lines[0], ",scope") || !strings.HasSuffix(lines[1], ",login") {
		t.Errorf("exported %q", lines)
	}
	id := found.Items[0].ID
	maria.post("/blocks/end", url.Values{"id": {id}}).is(http.StatusSeeOther)
	asks := n.as(t, "olu").post("/blocks/restore", url.Values{"id": {id}}).is(http.StatusSeeOther)
	maria.get(asks.header.Get("Location")).is(http.StatusOK).holds(`name="scope" value="login"`)
}

func TestUndoLeavesWhatWasBlockedBefore(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:192.0.2.9", "court order", "jo", blocks.Manual, time.Hour)
	olu := n.as(t, "olu")
	done := olu.post("/bulk/add", url.Values{"key": {"ip:192.0.2.8", "ip:192.0.2.9"}, "for": {"1h"}, "reason": {"x"}, "back": {"/offenders"}}).is(http.StatusSeeOther)
	at, err := url.Parse(done.header.Get("Location"))
	must(t, err)
	undone := strings.Split(at.Query().Get("ids"), ",")
	olu.post("/bulk/end", url.Values{"id": undone, "back": {"/offenders"}, "what": {"block"}}).is(http.StatusSeeOther)
	found, err := n.store.Entries.Find(context.Background(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now()})
	must(t, err)
	if len(undone) != 1 || found.Total != 1 || found.Items[0].Pattern.String() != "ip:192.0.2.9" {
		t.Errorf("undone %q, left %+v", undone, found.Items)
	}
}

func TestAsManyRowsAsAPageHasAreChangedAtOnce(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	ids := url.Values{}
	for i := range 50 {
		ids.Add("id", n.block(t, "ip:203.0.113."+strconv.Itoa(i), "scraping", "jo", blocks.Manual, time.Hour).ID)
	}
	got := olu.post("/blocks/end", ids).is(http.StatusSeeOther)
	olu.get(got.header.Get("Location")).is(http.StatusOK).holds("Ended 50 blocks.")
}

func TestAReasonIsEditedWithoutTheExpiry(t *testing.T) {
	n := newNode(t)
	b := n.block(t, "ip:203.0.113.1", "scraping", "jo", blocks.Manual, 90*time.Second+96*time.Millisecond)
	n.as(t, "olu").post("/blocks/"+b.ID, url.Values{
		"reason": {"scraping prices"}, "for": {"until"}, "until": {b.Expires.UTC().Format("2006-01-02 15:04")}, "revision": {strconv.FormatInt(b.Revision, 10)},
	}).is(http.StatusSeeOther)
	after, err := n.store.Entries.ByID(context.Background(), blocks.Block, b.ID)
	must(t, err)
	if after.Reason != "scraping prices" || !after.Expires.Equal(b.Expires) {
		t.Errorf("got %+v", after)
	}
}

func TestOnlyAdminsRunTheJobThatDeletesBackups(t *testing.T) {
	n := newNode(t)
	n.as(t, "olu").post("/jobs/back-up/run", url.Values{}).is(http.StatusForbidden)
}
