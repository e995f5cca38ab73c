package operations_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// tamper changes the database directly. It drops the trigger that forbids changes of
// the audit log.
func tamper(t *testing.T, f *storetest.Fixture, statements ...string) {
	t.Helper()
	drop := "DROP TRIGGER IF EXISTS audit_append_only"
	if f.Postgres() {
		drop += " ON audit"
	}
	for _, s := range append([]string{drop}, statements...) {
		f.Exec(t, s)
	}
}

func TestAuditChainDetectsTampering(t *testing.T) {
	for name, test := range map[string]struct {
		statements []string // {id} is a record in the middle, {last} the newest
		onlyHead   bool     // only the head that was kept elsewhere shows it
	}{
		"a summary":                  {statements: []string{"UPDATE audit SET summary = 'nothing' WHERE id = {id}"}},
		"an actor":                   {statements: []string{"UPDATE audit SET actor_name = 'eve' WHERE id = {id}"}},
		"a time":                     {statements: []string{"UPDATE audit SET at = at + 1 WHERE id = {id}"}},
		"a snapshot":                 {statements: []string{"UPDATE audit SET after = '' WHERE id = {id}"}},
		"a removed record":           {statements: []string{"DELETE FROM audit WHERE id = {id}"}},
		"a removed link":             {statements: []string{"DELETE FROM audit_chain WHERE id = {id}"}},
		"a removed record and link":  {statements: []string{"DELETE FROM audit WHERE id = {id}", "DELETE FROM audit_chain WHERE id = {id}"}},
		"the newest record":          {statements: []string{"DELETE FROM audit WHERE id = {last}"}},
		"a moved anchor":             {statements: []string{"UPDATE audit_anchor SET entry_id = {id}, hash = (SELECT hash FROM audit_chain WHERE id = {id})", "DELETE FROM audit WHERE id <= {id}", "DELETE FROM audit_chain WHERE id <= {id}"}},
		"the newest record and link": {statements: []string{"DELETE FROM audit WHERE id = {last}", "DELETE FROM audit_chain WHERE id = {last}"}, onlyHead: true},
		"the whole chain":            {statements: []string{"DELETE FROM audit_chain"}},
		"a new beginning":            {statements: []string{"UPDATE audit_anchor SET entry_id = {last}", "DELETE FROM audit_chain"}, onlyHead: true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
				for i := range 4 {
					storetest.AddToken(t, f, "token"+strconv.Itoa(i), identity.Check)
				}
				before := storetest.WantIntactChain(t, f, audit.Link{})
				if before.Records != 5 || before.Uncovered != 0 || before.Pending != 0 || before.Head.ID == 0 {
					t.Fatalf("%+v", before)
				}
				if v := storetest.WantIntactChain(t, f, before.Head); v.Kept != audit.HeadInChain {
					t.Fatalf("VerifyChain with its own head: got %q, want %q", v.Kept, audit.HeadInChain)
				}
				ids := strings.NewReplacer("{id}", strconv.FormatInt(before.Head.ID-2, 10), "{last}", strconv.FormatInt(before.Head.ID, 10))
				for i := range test.statements {
					test.statements[i] = ids.Replace(test.statements[i])
				}
				tamper(t, f, test.statements...)
				if v := storetest.VerifyChain(t, f, audit.Link{}); v.Intact != test.onlyHead && name != "the whole chain" {
					t.Errorf("VerifyChain without the kept head: %+v", v)
				}
				storetest.AddToken(t, f, "later", identity.Check) // later records do not hide the change
				v := storetest.VerifyChain(t, f, before.Head)
				if name == "the whole chain" {
					// The chain is written again over the same records, so it is equal.
					if !v.Intact || v.Kept != audit.HeadInChain {
						t.Errorf("%+v", v)
					}
					return
				}
				if v.Intact || v.Problem == "" {
					t.Errorf("VerifyChain with the kept head: %+v, want not intact", v)
				}
			})
		})
	}
}

func TestAuditChainStaysIntactAfterRetention(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		for i := range 6 {
			storetest.AddToken(t, f, "token"+strconv.Itoa(i), identity.Check)
			f.Clock.Advance(time.Hour)
		}
		early := storetest.WantIntactChain(t, f, audit.Link{}).Head
		f.Clock.Advance(24 * time.Hour)
		storetest.AddToken(t, f, "young", identity.Check)
		late := storetest.WantIntactChain(t, f, early).Head
		for range 2 { // the second removes the record that the first left
			before := f.Clock.Now().Add(-time.Hour)
			removed, err := f.Retention.DeleteRecordsBefore(ctx, before)
			if err != nil || removed == 0 {
				t.Fatalf("removed %d, %v", removed, err)
			}
			v := storetest.WantIntactChain(t, f, audit.Link{})
			if v.Anchor.ID == 0 || v.Records == 0 {
				t.Fatalf("%+v", v)
			}
			if v := storetest.VerifyChain(t, f, late); v.Kept == audit.HeadMissing {
				t.Errorf("the kept head %v of a recent record is missing: %+v", late, v)
			}
			f.Clock.Advance(2 * time.Hour)
			storetest.AddToken(t, f, "after"+strconv.FormatInt(v.Head.ID, 10), identity.Check)
		}
		if v := storetest.WantIntactChain(t, f, early); v.Kept != audit.HeadExpired {
			t.Errorf("the head of a removed record: got %q, want %q", v.Kept, audit.HeadExpired)
		}
		if removed, err := f.Retention.DeleteRecordsBefore(ctx, time.Unix(1, 0)); err != nil || removed != 0 {
			t.Errorf("removed %d records, want 0; %v", removed, err)
		}
	})
}

// The next change adds the records of a release that does not write the chain.
func TestAuditChainAddsRecordsOfOlderNode(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.AddToken(t, f, "first", identity.Check)
		f.Exec(t, `INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, revision)
VALUES (1, 'user', 'u', 'old', '', 'block.add', 'block', 'b', 'An older node did.', 1)`)
		if v := storetest.WantIntactChain(t, f, audit.Link{}); v.Pending != 1 {
			t.Fatalf("%+v", v)
		}
		storetest.AddToken(t, f, "second", identity.Check)
		if v := storetest.WantIntactChain(t, f, audit.Link{}); v.Pending != 0 || v.Records != 4 {
			t.Fatalf("%+v", v)
		}
	})
}

// The retention of an earlier release without the chain leaves the links of the records that it
// deletes. That looks like tampering until the retention of this release has deleted something
// too; see docs/OPERATORS.md.
func TestAuditChainRecoversFromRetentionOfOlderNode(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for i := range 6 {
			storetest.AddToken(t, f, "token"+strconv.Itoa(i), identity.Check)
			f.Clock.Advance(time.Hour)
		}
		head := storetest.WantIntactChain(t, f, audit.Link{}).Head
		retain := func(before time.Duration, want int64) {
			t.Helper()
			if removed, err := f.Retention.DeleteRecordsBefore(t.Context(), f.Clock.Now().Add(-before)); err != nil || removed != want {
				t.Fatalf("removed %d, want %d, %v", removed, want, err)
			}
		}
		// The record of the seed and four of tokens.
		f.Exec(t, "DELETE FROM audit WHERE at < "+strconv.FormatInt(f.Clock.Now().Add(-150*time.Minute).UnixMilli(), 10))
		if v := storetest.VerifyChain(t, f, head); v.Intact || v.ProblemID == 0 {
			t.Fatalf("the removed records were not detected: %+v", v)
		}
		retain(150*time.Minute, 0) // it deletes nothing, so the deletion is still detected
		if v := storetest.VerifyChain(t, f, head); v.Intact {
			t.Fatalf("the deletion is not detected after a retention that removed nothing: %+v", v)
		}
		retain(90*time.Minute, 1)
		if v := storetest.WantIntactChain(t, f, head); v.Kept != audit.HeadInChain || v.Records != 2 {
			t.Errorf("%+v", v)
		}
	})
}

// The chain is computed from what is written, and verified from what the database returns: both
// must agree for every text that a database accepts.
func TestAuditChainIsIntactForAnyText(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		texts := []string{"", " ", "é\u0301 ä 😀 \u2028\ufeff\ufffd", "\x01\x1b[31m\r\n\t\x7f", `{"a": 1.0, "b":"\\u0041"}`, "'; DROP TABLE audit; --", "\x00", "a\xffb", strings.Repeat("ß", 100_000)}
		written := int64(1) // by the seed
		for i, text := range texts {
			by := audit.Actor{Kind: audit.User, ID: text, Name: text, Address: text}
			err := f.Audit.AddRecord(t.Context(), audit.Record{Actor: by, Action: "key.reset", Object: "key", ObjectID: text, Summary: text, Before: []byte(text), After: []byte(text)})
			if err == nil {
				written++
			} else if !f.Postgres() || i < 6 || i > 7 {
				t.Errorf("%q: %v", text, err)
			}
		}
		// Many records in one batch, with unusual keys.
		keys := []string{"k:\u00e9\u0301", `k:"quoted"\n`, "k:'; --", "k:<script>", "k:😀", "k:" + strings.Repeat("x", 500), "ip:10.1.2.3", "ip:2001:db8::/64"}
		b := storetest.CrossingBatch("texts", 0, f.Clock.Now())
		at := f.Clock.Now()
		for i, key := range keys {
			o := offences.Offence{Minute: at.Truncate(time.Minute).UnixMilli(), Policy: 7, Key: key, RefusedBy: "1/1s", Count: 10,
				First: offences.Refusal{At: at.UnixMilli()}, Last: offences.Refusal{At: at.UnixMilli()}}
			o.MAC[0] = byte(i)
			b.Offences = append(b.Offences, o)
		}
		events, err := f.Offences.Flush(t.Context(), b, storetest.EvaluationAt(f))
		if err != nil || len(events) != len(keys) {
			t.Fatalf("%d keys were blocked, want %d; %v", len(events), len(keys), err)
		}
		written += int64(len(keys))
		if v := storetest.WantIntactChain(t, f, audit.Link{}); v.Records != written || v.Pending != 0 {
			t.Errorf("got %+v, want %d records", v, written)
		}
	})
}

// If a record of an older node is not in the chain yet, a change reads that record and its own ones
// from the database to add them.
func TestAuditChainAddsOlderAndOwnRecordsTogether(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Exec(t, `INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, revision)
VALUES (1, 'user', 'u', 'old', '', 'block.add', 'block', 'b', 'An older node did.', 1)`)
		events, err := f.Offences.Flush(t.Context(), storetest.CrossingBatch("both", 30, f.Clock.Now()), storetest.EvaluationAt(f))
		if err != nil || len(events) != 30 {
			t.Fatalf("%d keys were blocked, want 30; %v", len(events), err)
		}
		if v := storetest.WantIntactChain(t, f, audit.Link{}); v.Pending != 0 || v.Records != 32 {
			t.Fatalf("%+v", v)
		}
	})
}

func TestAuditChainIsIntactWithConcurrentWriters(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		stores := []interface {
			AddRecord(context.Context, audit.Record) error
		}{f.Audit}
		if f.Postgres() {
			stores = append(stores, f.Another(t).Audit, f.Another(t).Audit)
		}
		const writers, each = 6, 10
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for n := range each {
					err := stores[i%len(stores)].AddRecord(t.Context(), audit.Record{Actor: storetest.Operator, Action: "key.reset", Object: "key", ObjectID: strconv.Itoa(n)})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if v := storetest.WantIntactChain(t, f, audit.Link{}); v.Records != writers*each+1 {
			t.Errorf("%+v", v)
		}
	})
}

func TestAuditChainAfterRestoreRecordsFormerHead(t *testing.T) {
	f := storetest.OpenSQLite(t)
	storetest.AddToken(t, f, "kept", identity.Admin)
	path := storetest.Backup(t, f)
	storetest.AddToken(t, f, "later", identity.Admin)
	before := storetest.WantIntactChain(t, f, audit.Link{}).Head
	if err := f.Restore(t.Context(), storetest.Operator, path); err != nil {
		t.Fatal(err)
	}
	storetest.WantIntactChain(t, f, audit.Link{})
	if v := storetest.VerifyChain(t, f, before); v.Intact || v.Kept != audit.HeadMissing {
		t.Errorf("VerifyChain with the head from before the restore: %+v, want it missing", v)
	}
	page, err := f.Audit.FindRecords(t.Context(), audit.Filter{Action: "database.restore"})
	if err != nil || len(page.Records) != 1 || !strings.Contains(string(page.Records[0].Before), before.String()) {
		t.Errorf("the record of the restore does not contain the head %v: %+v, %v", before, page.Records, err)
	}
}
