package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

func TestExtendingBroadEntryRequiresTypedConfirmation(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	ctx := context.Background()
	all := n.block(t, "*", "an attack", "jo", blocks.Manual, time.Hour)
	exempt, err := n.store.Entries.Add(ctx, audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "ip:*"), Author: "jo", Expires: n.clock.Now().Add(time.Hour)})
	must(t, err)
	for i := range 60 { // a list of more than one page, whose other patterns hold a * too
		n.block(t, "token:x"+strconv.Itoa(i)+"_*", "", "jo", blocks.Manual, time.Hour)
	}
	for path, e := range map[string]struct {
		id, pattern string
		revision    int64
	}{
		"/blocks":     {all.ID, "*", all.Revision},
		"/exemptions": {exempt[0].Entry.ID, "ip:*", exempt[0].Entry.Revision},
	} {
		for _, length := range []string{"1h", "good"} {
			form := url.Values{"reason": {"later"}, "for": {length}, "revision": {strconv.FormatInt(e.revision, 10)}}
			olu.post(path+"/"+e.id, form).is(http.StatusUnprocessableEntity).holds(`id="edit-confirm"`).holds("Nothing was changed: it covers every").holds(`value="later"`)
			form.Set("confirm", "yes")
			olu.post(path+"/"+e.id, form).is(http.StatusUnprocessableEntity).holds(`id="edit-confirm"`)
		}
		shorter := url.Values{"reason": {"shorter"}, "for": {"until"}, "until": {n.clock.Now().Add(30 * time.Minute).UTC().Format("2006-01-02 15:04")}, "revision": {strconv.FormatInt(e.revision, 10)}}
		olu.post(path+"/"+e.id, shorter).is(http.StatusSeeOther)
	}
	block, err := n.store.Entries.ByID(ctx, blocks.Block, all.ID)
	must(t, err)
	longer := url.Values{"reason": {"meant"}, "for": {"good"}, "confirm": {"*"}, "revision": {strconv.FormatInt(block.Revision, 10)}}
	olu.post("/blocks/"+all.ID, longer).is(http.StatusSeeOther)
	if block, err = n.store.Entries.ByID(ctx, blocks.Block, all.ID); err != nil || block.Reason != "meant" || !block.Expires.IsZero() {
		t.Errorf("got %+v, %v", block, err)
	}
}

func TestRestoringBroadEntryRequiresTypedConfirmation(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	b := n.block(t, "*", "an attack", "jo", blocks.Manual, 24*time.Hour)
	end := func(path string) url.Values {
		t.Helper()
		active := n.activeBlocks(t)
		if len(active) != 1 {
			t.Fatalf("%d blocks are active, want 1", len(active))
		}
		id := url.Values{"id": {active[0].ID}}
		olu.post(path, id).is(http.StatusSeeOther)
		return id
	}
	for ended, restored := range map[string]string{"/blocks/end": "/blocks/restore", "/bulk/end": "/bulk/restore"} {
		// A user who has just ended it restores it with one click.
		olu.post(restored, end(ended)).is(http.StatusSeeOther)
		if len(n.activeBlocks(t)) != 1 {
			t.Fatalf("%s did not restore the block", restored)
		}
		// Later a confirmation is required, as for adding it.
		id := end(ended)
		n.clock.advance(2 * time.Minute)
		at := olu.post(restored, id).is(http.StatusSeeOther).header.Get("Location")
		if !strings.HasPrefix(at, "/blocks/new?") || len(n.activeBlocks(t)) != 0 {
			t.Fatalf("%s redirects to %s, and %d blocks are active; want the form, and none", restored, at, len(n.activeBlocks(t)))
		}
		olu.get(at).is(http.StatusOK).holds(`id="confirm"`).holds(`value="an attack"`)
		undoEnd := undo(n.entries(t, audit.Filter{Object: "block", Limit: 1})[0].ID)
		olu.post("/audit/undo", undoEnd).is(http.StatusOK).holds("To undo it, type").holds("it covers every key")
		undoEnd.Set("confirm", "yes")
		olu.post("/audit/undo", undoEnd).is(http.StatusUnprocessableEntity).holds("Nothing was changed")
		if len(n.activeBlocks(t)) != 0 {
			t.Fatal("the undo restored the block without a confirmation")
		}
		undoEnd.Set("confirm", "*")
		olu.post("/audit/undo", undoEnd).is(http.StatusSeeOther)
	}
	// A block that another user ended requires a confirmation immediately, alone or among others.
	active := n.activeBlocks(t)[0]
	_, err := n.store.Entries.End(context.Background(), audit.SystemActor("test"), blocks.Block, "", active.ID)
	must(t, err)
	narrow := n.block(t, "token:x", "", "jo", blocks.Manual, time.Hour)
	olu.post("/blocks/end", url.Values{"id": {narrow.ID}}).is(http.StatusSeeOther)
	for _, restored := range []string{"/blocks/restore", "/bulk/restore"} {
		if at := olu.post(restored, url.Values{"id": {active.ID}}).is(http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(at, "/blocks/new?") {
			t.Errorf("%s redirects to %s, want the form", restored, at)
		}
		olu.post(restored, url.Values{"id": {narrow.ID, active.ID}}).is(http.StatusConflict).holds("Nothing was changed")
	}
	if all := n.activeBlocks(t); len(all) != 0 {
		t.Errorf("%d blocks are active, the first of %s, want none of %s", len(all), all[0].Pattern, b.Pattern)
	}
}

func TestSavingBroadPolicyRequiresTypedConfirmation(t *testing.T) {
	n := newNode(t)
	adm := n.as(t, "maria")
	form := func(version int64, more ...string) url.Values {
		f := url.Values{
			"expect": {n.tag(t, "default", version)}, "mode": {"enforce"}, "limit": {"0"}, "window": {"1s"}, "match": {"*"},
			"on_failure": {"local"}, "do": {"save"},
		}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	version := func(want int64) {
		t.Helper()
		if p, err := n.store.Policies.FindPolicyByName(context.Background(), "default"); err != nil || p.Version != want {
			t.Fatalf("version %d is active, want %d: %v", p.Version, want, err)
		}
	}
	adm.post("/policies/default", form(1)).is(http.StatusUnprocessableEntity).holds(`id="confirm-broad"`).holds("it refuses every request of *")
	adm.post("/policies/default", form(1, "confirm", "yes")).is(http.StatusUnprocessableEntity)
	version(1)
	adm.post("/policies/default", form(1, "confirm", "default")).is(http.StatusSeeOther)
	version(2)
	adm.post("/policies/default", form(2, "limit", "5")).is(http.StatusSeeOther)
	version(3)
	back := url.Values{"version": {"2"}, "expect": {n.tag(t, "default", 3)}}
	adm.post("/policies/default/return", back).is(http.StatusUnprocessableEntity).holds(`id="confirm-broad"`)
	replaced := undo(n.entries(t, audit.Filter{Object: "policy", Limit: 1})[0].ID)
	adm.post("/audit/undo", replaced).is(http.StatusOK).holds("To undo it, type <bdi>default</bdi>")
	version(3)
	replaced.Set("confirm", "default")
	adm.post("/audit/undo", replaced).is(http.StatusSeeOther)
	version(4)
}

// A block of one scope must not become one of every check when it is restored, nor a challenge a refusal.
func TestRestoringScopedBlockKeepsScopeAndAction(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	maria.post("/blocks", url.Values{"pattern": {"ip:*"}, "scope": {"login"}, "action": {"challenge"}, "reason": {"stop logins"}, "for": {"24h"}, "confirm": {"ip:*"}}).is(http.StatusSeeOther)
	active := n.activeBlocks(t)
	if len(active) != 1 || active[0].Scope != "login" {
		t.Fatalf("got %+v", active)
	}
	lines := strings.Split(maria.get("/blocks/export").is(http.StatusOK).body, "\n")
	if !strings.HasSuffix(lines[0], ",scope,ended_at,ended_by,id,sources,action") || !strings.HasSuffix(lines[1], ",login,,,"+active[0].ID+",maria,challenge") {
		t.Errorf("got the export %q, want the scope login in it", lines)
	}
	id := active[0].ID
	maria.post("/blocks/end", url.Values{"id": {id}}).is(http.StatusSeeOther)
	asked := n.as(t, "olu").post("/blocks/restore", url.Values{"id": {id}}).is(http.StatusSeeOther)
	maria.get(asked.header.Get("Location")).is(http.StatusOK).holds(`name="scope" value="login"`).holds(`name="action" value="challenge" checked`)
}
