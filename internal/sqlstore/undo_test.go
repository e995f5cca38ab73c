package sqlstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

// undo undoes the newest record and returns the record of that.
func undo(t testing.TB, f *storetest.Fixture) *audit.Record {
	t.Helper()
	id := storetest.NewestRecord(t, f).ID
	made, err := f.Undo(t.Context(), storetest.Operator, id)
	if err != nil {
		t.Fatal(err)
	}
	if made.ID == id || made.Actor != storetest.Operator || !strings.Contains(made.Summary, "This undoes entry") {
		t.Fatalf("undoing wrote the record %+v", made)
	}
	return made
}

// activeBlocks returns the active blocks as "pattern reason time-until-the-end".
func activeBlocks(t testing.TB, f *storetest.Fixture) string {
	t.Helper()
	var all []string
	for b, err := range f.Entries.Each(t.Context(), blocks.Filter{Kind: blocks.Block, At: f.Clock.Now()}) {
		if err != nil {
			t.Fatal(err)
		}
		left := "permanent"
		if !b.Expires.IsZero() {
			left = b.Expires.Sub(f.Clock.Now()).String()
		}
		all = append(all, b.Pattern.String()+" "+b.Reason+" "+left)
	}
	return strings.Join(all, ", ")
}

func TestUndoRestoresBlocks(t *testing.T) {
	reason := "else"
	for name, c := range map[string]struct {
		change       func(t *testing.T, f *storetest.Fixture, b *blocks.Entry)
		before, want string
	}{
		"an ended block": {
			func(t *testing.T, f *storetest.Fixture, b *blocks.Entry) {
				if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "by mistake", b.ID); err != nil {
					t.Fatal(err)
				}
				f.Clock.Advance(10 * time.Minute)
			}, "", "token:a scraping 50m0s",
		},
		"an addition": {
			func(t *testing.T, f *storetest.Fixture, b *blocks.Entry) {
				storetest.AddEntry(t, f, storetest.NewBlock(t, "token:b", time.Time{}), blocks.Fail)
			},
			"token:b scraping permanent, token:a scraping 1h0m0s", "token:a scraping 1h0m0s",
		},
		"an extension": {
			func(t *testing.T, f *storetest.Fixture, b *blocks.Entry) {
				storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", f.Clock.Now().Add(9*time.Hour)), blocks.Extend)
			},
			"token:a scraping 9h0m0s", "token:a scraping 1h0m0s",
		},
		"an edit": {
			func(t *testing.T, f *storetest.Fixture, b *blocks.Entry) {
				if _, err := f.Entries.Update(t.Context(), storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{Reason: wire.To(reason), ExpiresAt: wire.To(wire.Time{})}); err != nil {
					t.Fatal(err)
				}
			}, "token:a else permanent", "token:a scraping 1h0m0s",
		},
		"a replacement": {
			func(t *testing.T, f *storetest.Fixture, b *blocks.Entry) {
				storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Replace)
			},
			"token:a scraping permanent", "token:a scraping 1h0m0s",
		},
		"an import": {
			func(t *testing.T, f *storetest.Fixture, b *blocks.Entry) {
				if _, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, 3), blocks.Keep, nil); err != nil {
					t.Fatal(err)
				}
			},
			"ip:10.0.0.2 scraping permanent, ip:10.0.0.1 scraping permanent, ip:10.0.0.0 scraping permanent, token:a scraping 1h0m0s",
			"token:a scraping 1h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
				b := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", f.Clock.Now().Add(time.Hour)), blocks.Fail).Entry
				c.change(t, f, b)
				if got := activeBlocks(t, f); got != c.before {
					t.Fatalf("before the undo %q is active, want %q", got, c.before)
				}
				undo(t, f)
				if got := activeBlocks(t, f); got != c.want {
					t.Fatalf("after the undo %q is active, want %q", got, c.want)
				}
			})
		})
	}
}

func TestUndoCanBeUndone(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		b := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", b.ID); err != nil {
			t.Fatal(err)
		}
		undo(t, f)
		undo(t, f)
		if got := activeBlocks(t, f); got != "" {
			t.Fatalf("%q is active, want nothing", got)
		}
		undo(t, f)
		if got := activeBlocks(t, f); got != "token:a scraping permanent" {
			t.Fatalf("%q is active, want the restored block", got)
		}
	})
}

func TestUndoOfReplacementCanBeUndone(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", f.Clock.Now().Add(time.Hour)), blocks.Fail)
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Replace)
		for range 2 {
			undo(t, f)
			if got := activeBlocks(t, f); got != "token:a scraping 1h0m0s" {
				t.Fatalf("%q is active, want the replaced block", got)
			}
			undo(t, f)
			if got := activeBlocks(t, f); got != "token:a scraping permanent" {
				t.Fatalf("%q is active, want the block that replaced it", got)
			}
		}
	})
}

func TestUndoRejectsUndoneImport(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		if _, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, 3), blocks.Keep, nil); err != nil {
			t.Fatal(err)
		}
		_, err := f.Undo(t.Context(), storetest.Operator, undo(t, f).ID)
		storetest.WantFault(t, err, fault.Conflict)
		if !strings.Contains(err.Error(), "cannot be undone") {
			t.Fatalf("got %q, want \"cannot be undone\"", err)
		}
	})
}

func TestUndoRestoresExemption(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		added, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: keytest.Pattern(t, "token:a"), Reason: "monitoring"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Exemption, "", added[0].Entry.ID); err != nil {
			t.Fatal(err)
		}
		undo(t, f)
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Exemption, At: f.Clock.Now()})
		if err != nil || len(page.Items) != 1 || page.Items[0].Reason != "monitoring" || page.Items[0].ID != added[0].Entry.ID {
			t.Fatalf("got the exemptions %+v, %v", page.Items, err)
		}
	})
}

func TestUndoRestoresPolicies(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "search", "token:*", "5/10s"), etag.New)
		undo(t, f)
		if _, err := f.Policies.FindPolicyByName(ctx, "search"); !fault.Is(err, fault.NotFound) {
			t.Fatalf("FindPolicyByName after undoing its creation: got %v, want NotFound", err)
		}
		first := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "search", "token:*", "5/10s"), etag.New)
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "search", "token:*", "9/10s"), storetest.TagOf(t, f.Policies, "search"))
		undo(t, f)
		p, err := f.Policies.FindPolicyByName(ctx, "search")
		if err != nil || p.Version != 3 || p.Rules.String() != "5/10s" || p.ID != first.ID {
			t.Fatalf("got %+v, %v", p, err)
		}
		if err := f.Policies.DeletePolicy(ctx, storetest.Operator, "search", storetest.TagOf(t, f.Policies, "search")); err != nil {
			t.Fatal(err)
		}
		undo(t, f)
		p, err = f.Policies.FindPolicyByName(ctx, "search")
		if err != nil || p.Version != 1 || p.Rules.String() != "5/10s" || p.ID == first.ID {
			t.Fatalf("got %+v, %v", p, err)
		}
	})
}

func TestUndoRejectsRecordsChangedSince(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		refused := func(id int64, words string) {
			t.Helper()
			_, err := f.Undo(ctx, storetest.Operator, id)
			storetest.WantFault(t, err, fault.Conflict)
			if !strings.Contains(err.Error(), words) {
				t.Fatalf("got %q, want it to say %q", err, words)
			}
		}
		b := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", f.Clock.Now().Add(time.Hour)), blocks.Fail).Entry
		added := storetest.NewestRecord(t, f).ID
		reason := "else"
		if _, err := f.Entries.Update(ctx, storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{Reason: wire.To(reason)}); err != nil {
			t.Fatal(err)
		}
		refused(added, "has changed since")
		if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", b.ID); err != nil {
			t.Fatal(err)
		}
		ended := storetest.NewestRecord(t, f).ID
		other := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail).Entry
		refused(ended, "has the active block "+other.ID)
		if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", other.ID); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Hour)
		refused(ended, "would have ended")

		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "search", "token:*", "5/10s"), etag.New)
		created := storetest.NewestRecord(t, f).ID
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "search", "token:*", "9/10s"), storetest.TagOf(t, f.Policies, "search"))
		refused(created, "has changed since")
		if err := f.Policies.DeletePolicy(ctx, storetest.Operator, "search", storetest.TagOf(t, f.Policies, "search")); err != nil {
			t.Fatal(err)
		}
		deleted := storetest.NewestRecord(t, f).ID
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "other", "token:*", "5/10s"), etag.New)
		refused(deleted, "belongs to the policy")
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "search", "ip:*", "5/10s"), etag.New)
		refused(deleted, "has changed since")
		if err := f.Policies.DeletePolicy(ctx, storetest.Operator, "search", storetest.TagOf(t, f.Policies, "search")); err != nil {
			t.Fatal(err)
		}
		if err := f.Policies.DeletePolicy(ctx, storetest.Operator, "other", storetest.TagOf(t, f.Policies, "other")); err != nil {
			t.Fatal(err)
		}
		refused(deleted, "has changed since")

		if _, err := f.Entries.Import(ctx, storetest.Operator, storetest.Sequence(storetest.NewBlock(t, "token:new", f.Clock.Now().Add(time.Second))), blocks.Keep, nil); err != nil {
			t.Fatal(err)
		}
		imported := storetest.NewestRecord(t, f).ID
		f.Clock.Advance(time.Second)
		refused(imported, "Nothing is left")
		if err := f.Audit.AddRecord(ctx, audit.Record{Actor: storetest.Operator, Action: "key.reset", Object: "key", ObjectID: "token:a", Summary: "Reset"}); err != nil {
			t.Fatal(err)
		}
		refused(storetest.NewestRecord(t, f).ID, "cannot be undone")
		_, err := f.Undo(ctx, storetest.Operator, 1<<40)
		storetest.WantFault(t, err, fault.NotFound)
	})
}
