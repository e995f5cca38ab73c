package adminui_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

func (n *node) entries(t testing.TB, f audit.Filter) []*audit.Record {
	t.Helper()
	page, err := n.store.Audit.FindRecords(context.Background(), f)
	must(t, err)
	return page.Records
}

func undoButton(id int64) string { return `aria-label="Undo entry ` + strconv.FormatInt(id, 10) + `"` }

func undo(id int64) url.Values { return url.Values{"id": {strconv.FormatInt(id, 10)}} }

func TestAuditPageUndoesLatestChange(t *testing.T) {
	n := newNode(t)
	olu, vic := n.as(t, "olu"), n.as(t, "vic")
	b := n.block(t, "ip:203.0.113.1", "scraping", "jo", blocks.Manual, time.Hour)
	_, err := n.store.Entries.End(context.Background(), audit.SystemActor("test"), blocks.Block, "", b.ID)
	must(t, err)
	found := n.entries(t, audit.Filter{Object: "block"})
	end, add := found[0], found[1]
	// Only the latest change of an object can be undone.
	olu.get("/audit").is(http.StatusOK).holds(undoButton(end.ID)).lacks(undoButton(add.ID))
	vic.get("/audit").is(http.StatusOK).lacks(">Undo<")
	vic.post("/audit/undo", undo(end.ID)).is(http.StatusForbidden)
	got := olu.post("/audit/undo", undo(end.ID)).is(http.StatusSeeOther)
	olu.get(got.header.Get("Location")).is(http.StatusOK).holds("Undone. ").holds("data-toast")
	if all := n.activeBlocks(t); len(all) != 1 || all[0].Pattern != b.Pattern || !all[0].Expires.Equal(b.Expires) {
		t.Errorf("got the active blocks %+v, want the restored one", all)
	}
	olu.post("/audit/undo", undo(add.ID)).is(http.StatusConflict)
	olu.post("/audit/undo", undo(1<<40)).is(http.StatusNotFound)
}

func TestToastOfAddedEntriesKeepsEntriesChangedSince(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for _, c := range []struct {
		path, end string
		form      url.Values
	}{
		{"/bulk/add", "/bulk/end", url.Values{"key": {"token:a", "token:b"}, "back": {"/offenders"}, "for": {"24h"}, "reason": {"test"}}},
		{"/blocks", "/blocks/end", url.Values{"pattern": {"token:c"}, "for": {"24h"}, "reason": {"test"}}},
	} {
		at := olu.post(c.path, c.form).is(http.StatusSeeOther).header.Get("Location")
		page := olu.get(at).is(http.StatusOK).holds(`action="` + c.end + `"`)
		undo := url.Values{"revision": regexp.MustCompile(`name="revision" value="(\d+)"`).FindStringSubmatch(page.body)[1:]}
		for _, id := range regexp.MustCompile(`name="id" value="([0-9a-f-]{36})"`).FindAllStringSubmatch(page.body, -1) {
			undo.Add("id", id[1])
		}
		added := n.activeBlocks(t)
		reason := "changed by maria"
		_, err := n.store.Entries.Update(context.Background(), audit.SystemActor("maria"), blocks.Block, undo["id"][0], wire.EntryPatch{Reason: wire.To(reason)})
		must(t, err)
		olu.post(c.end, undo).is(http.StatusPreconditionFailed)
		if left := n.activeBlocks(t); len(left) != len(added) {
			t.Errorf("%s: %d blocks are active, want %d", c.end, len(left), len(added))
		}
		if page := olu.get(at).is(http.StatusOK); strings.Contains(page.body, `name="revision" value=`) {
			t.Errorf("%s: the toast still has the undo of a changed entry: %s", c.path, page.shown())
		}
	}
}

func TestAuditPageUndoesPolicyForAdminsOnly(t *testing.T) {
	n := newNode(t)
	p, err := n.store.Policies.FindPolicyByName(context.Background(), "default")
	must(t, err)
	changed := *p
	changed.Rules = stack(t, "5/s")
	_, err = n.store.Policies.PutPolicy(context.Background(), audit.SystemActor("test"), &changed, etag.Any)
	must(t, err)
	replaced := n.entries(t, audit.Filter{Object: "policy", Limit: 1})[0]
	olu := n.as(t, "olu")
	olu.get("/audit").lacks(undoButton(replaced.ID))
	olu.post("/audit/undo", undo(replaced.ID)).is(http.StatusForbidden)
	maria := n.as(t, "maria")
	maria.get("/audit").holds(undoButton(replaced.ID))
	maria.post("/audit/undo", undo(replaced.ID)).is(http.StatusSeeOther)
	if now, err := n.store.Policies.FindPolicyByName(context.Background(), "default"); err != nil || now.Rules.String() != p.Rules.String() {
		t.Errorf("got the policy %v, %v after the undo, want the former rules", now, err)
	}
}

func TestAuditPageUndoesImport(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	held := olu.upload("/blocks/import", "list.txt", "203.0.113.1\n203.0.113.2\n", importFields).held()
	olu.post("/blocks/import/confirm", url.Values{"file": {held}}).is(http.StatusOK).holds("/audit?object=block&amp;action=block.import")
	entry := n.entries(t, audit.Filter{Action: "block.import"})[0]
	olu.get("/audit?object=block&action=block.import").holds(undoButton(entry.ID))
	olu.post("/audit/undo", undo(entry.ID)).is(http.StatusSeeOther)
	if all := n.activeBlocks(t); len(all) != 0 {
		t.Errorf("%d blocks are active after the undo, want none", len(all))
	}
}

func TestAuditExportAppliesFilters(t *testing.T) {
	n := newNode(t)
	n.block(t, "token:=cmd()", "=cmd()", "jo", blocks.Manual, time.Hour)
	n.block(t, "token:b", "other", "mia", blocks.Manual, time.Hour)
	vic := n.as(t, "vic")
	vic.get("/audit?actor=jo").holds(`href="/audit/export?actor=jo&amp;format=csv"`).holds(`href="/audit/export?actor=jo&amp;format=json"`)
	rows, err := csv.NewReader(strings.NewReader(vic.get("/audit/export?actor=jo&format=csv").is(http.StatusOK).body)).ReadAll()
	must(t, err)
	if len(rows) != 2 || rows[1][3] != "jo" || strings.HasPrefix(rows[1][8], "=") {
		t.Errorf("got the rows %q, want one record of jo", rows)
	}
	var entries []struct{ Action string }
	got := vic.get("/audit/export?actor=jo&format=json").is(http.StatusOK)
	if err := json.Unmarshal([]byte(got.body), &entries); err != nil || len(entries) != 1 || entries[0].Action != "block.add" {
		t.Errorf("got %+v, %v from %s", entries, err, got.body)
	}
}

func TestEntrySavedAsItIsSaysThatNothingChanged(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	b := n.block(t, "token:a", "scraping", "jo", blocks.Manual, 0)
	save := func(reason string) *answer {
		form := url.Values{"reason": {reason}, "for": {"good"}, "revision": {strconv.FormatInt(n.activeBlocks(t)[0].Revision, 10)}}
		return olu.get(olu.post("/blocks/"+b.ID, form).is(http.StatusSeeOther).header.Get("Location")).is(http.StatusOK)
	}
	save("scrapers").holds("Changed the block of").holds(`action="/audit/undo"`)
	save("scrapers").holds("Nothing was changed in the block of").lacks(`action="/audit/undo"`)
}

func TestUndoOfEndedEntriesSaysThatTheyAreRestored(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for what, noun := range map[string]string{"": "block", "exempt": "exemption"} {
		form := url.Values{"what": {what}, "key": {"token:a", "token:b"}, "for": {"24h"}, "back": {"/offenders"}}
		added, err := url.Parse(olu.post("/bulk/add", form).is(http.StatusSeeOther).header.Get("Location"))
		must(t, err)
		n.clock.advance(time.Hour)
		for _, ids := range [][]string{strings.Split(added.Query().Get("ids"), ",")[:1], strings.Split(added.Query().Get("ids"), ",")} {
			form = url.Values{"what": {what}, "id": ids, "back": {"/offenders"}}
			done := func(path string) *answer {
				return olu.get(olu.post(path, form).is(http.StatusSeeOther).header.Get("Location")).is(http.StatusOK)
			}
			done("/bulk/end").holds("Ended the " + noun).holds(`action="/bulk/restore"`)
			restored := "Restored the " + noun + " of <bdi"
			if len(ids) > 1 {
				restored = "Restored the " + noun + "s of 2 keys"
			}
			done("/bulk/restore").holds(restored)
		}
	}
}

// The page of a deleted policy leads to the change whose undo brings it back.
func TestPageOfDeletedPolicyLeadsToItsDeletion(t *testing.T) {
	n := newNode(t)
	storetest.PutPolicy(t, n.store.Policies, storetest.NewPolicy(t, "login", "login:*", "5/1m"), etag.New)
	maria := n.as(t, "maria")
	maria.post("/policies/login/delete", url.Values{"expect": {n.tag(t, "login", 1)}, "confirm": {"login"}}).is(http.StatusSeeOther)
	deletion := n.entries(t, audit.Filter{Action: "policy.delete"})[0]
	path := "/audit?object=policy&amp;object_id=login&amp;open=" + strconv.FormatInt(deletion.ID, 10)
	maria.get("/policies/login").is(http.StatusNotFound).holds("brings it back").holds(`href="` + path + `"`)
	maria.get(strings.ReplaceAll(path, "&amp;", "&")).is(http.StatusOK).holds(undoButton(deletion.ID))
	maria.get("/policies/nobody").is(http.StatusNotFound).lacks("Show its deletion")
}

// The page of a policy says what its deletion ends, and leads to the blocks that stay.
func TestPageSaysWhatDeletionOfAdditionalPolicyEnds(t *testing.T) {
	n := newNode(t)
	suspicion := storetest.NewPolicy(t, "suspicion", "ip:*", "5/1m")
	suspicion.Outcome, suspicion.Escalation = "failed", rules.BlockAtOnce()
	storetest.PutPolicy(t, n.store.Policies, suspicion, etag.New)
	b := n.block(t, "ip:203.0.113.1", "3 offences within 1h under policy suspicion: level 1, 4h.", "escalation", blocks.Automatic, time.Hour)
	maria := n.as(t, "maria")
	const path = "/blocks?source=automatic&amp;q=under+policy+suspicion:"
	maria.get("/policies/suspicion").is(http.StatusOK).holds("What it refuses is then not refused any more; the other policies of its keys go on. Its automatic blocks stay until they end.").
		lacks("next broader pattern").holds(`href="` + path + `"`)
	maria.get(strings.ReplaceAll(path, "&amp;", "&")).is(http.StatusOK).holds(b.ID)
}

// A policy that refuses nobody any more says on its page which of its automatic blocks go on.
func TestPageOfShadowPolicySaysWhichBlocksGoOn(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:203.0.113.1", "level 3", "escalation", blocks.Automatic, time.Hour) // of the policy default
	maria := n.as(t, "maria")
	maria.get("/policies/default").is(http.StatusOK).lacks("active now: 1")
	before, err := n.store.Policies.FindPolicyByName(t.Context(), "default")
	must(t, err)
	shadow := *before
	shadow.Mode = rules.Shadow
	storetest.PutPolicy(t, n.store.Policies, &shadow, rules.TagOf(before))
	must(t, n.catalog.Refresh(t.Context()))
	maria.get("/policies/default").is(http.StatusOK).holds("Its automatic blocks go on until they end; active now: 1. To end them: stint-admin block delete --policy default")
}
