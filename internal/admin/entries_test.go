package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func isField(err error, field string) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Field == field
}

func TestEntryFaultsNameTheField(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	long := strings.Repeat("x", 1001)
	for name, c := range map[string]struct {
		add   admin.AddEntries
		field string
	}{
		"no pattern":                 {admin.AddEntries{}, "pattern"},
		"a bad pattern":              {admin.AddEntries{Patterns: []string{"token:a", "ip:nothing"}}, "pattern"},
		"too many patterns":          {admin.AddEntries{Patterns: slices.Repeat([]string{"token:a"}, 201)}, "pattern"},
		"a long reason":              {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{Reason: long}}, "reason"},
		"a reason of two lines":      {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{Reason: "a\nb"}}, "reason"},
		"a reason that is not UTF-8": {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{Reason: "\xff"}}, "reason"},
		"a duration and an expiry":   {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{ExpiresIn: 1, ExpiresAt: wire.At(noon.Add(1))}}, "expires_in"},
		"a negative duration":        {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{ExpiresIn: -1}}, "expires_in"},
		"an expiry of now":           {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{ExpiresAt: wire.At(noon)}}, "expires_at"},
		"an unknown on_conflict":     {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{OnConflict: "merge"}}, "on_conflict"},
		"confirm of another pattern": {admin.AddEntries{Patterns: []string{"token:a"}, AddEntry: wire.AddEntry{Confirm: "ip:nothing"}}, "confirm"},
	} {
		for _, kind := range blocks.Kinds {
			c.add.Kind = kind
			if _, err := f.Add(t.Context(), ann, c.add); !isField(err, c.field) {
				t.Errorf("%s: got %v, want the field %s", name, err, c.field)
			}
		}
	}
	e := f.add(t, blocks.Block, "token:a", blocks.Expiry{})
	for field, u := range map[string]wire.EntryPatch{
		"": {}, "revision": {Reason: wire.To(""), Revision: -1}, "reason": {Reason: wire.To(long)}, "expires_at": {ExpiresAt: wire.To(wire.At(noon))},
		"confirm": {ExpiresIn: wire.To(wire.Duration(time.Hour)), Confirm: "ip:nothing"},
	} {
		if _, err := f.Update(t.Context(), ann, blocks.Block, e.ID, u); !isField(err, field) {
			t.Errorf("Update: got %v, want the field %q", err, field)
		}
	}
	if _, err := f.End(t.Context(), ann, blocks.Block, long, e.ID); !isField(err, "reason") {
		t.Errorf("End with a long reason: got %v, want the field reason", err)
	}
	if _, err := f.End(t.Context(), ann, blocks.Block, ""); !isField(err, "id") {
		t.Errorf("without ids: got %v, want the field id", err)
	}
	if _, err := f.Restore(t.Context(), ann, blocks.Block, ""); !isField(err, "id") {
		t.Errorf("without ids: got %v, want the field id", err)
	}
	if records := f.records(t); len(records) != 1 {
		t.Errorf("%d changes are recorded, want only the first", len(records))
	}
}

func TestConflictFailsUnlessOnConflictIsSet(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, kind := range blocks.Kinds {
			active := f.add(t, kind, "token:a", blocks.Expiry{For: time.Hour})
			add := admin.AddEntries{Kind: kind, Patterns: []string{"token:b", "token:a"}, AddEntry: wire.AddEntry{Reason: "again", ExpiresIn: wire.Duration(2 * time.Hour)}}
			for _, on := range []blocks.Conflict{"", blocks.Fail} {
				add.OnConflict = string(on)
				_, err := f.Add(t.Context(), ann, add)
				var e *fault.Error
				if !errors.As(err, &e) || e.Code != fault.Conflict || e.Detail["id"] != active.ID {
					t.Fatalf("got %+v", err)
				}
			}
			if got := f.active(t, kind); !slices.Equal(got, []string{"token:a"}) {
				t.Fatalf("active after a conflict: %q, want token:a only", got)
			}
			for _, c := range []struct {
				on      blocks.Conflict
				outcome blocks.Outcome
				expires time.Duration
				isSame  bool
			}{{blocks.Keep, blocks.Unchanged, time.Hour, true}, {blocks.Extend, blocks.Extended, 2 * time.Hour, true}, {blocks.Replace, blocks.Replaced, 2 * time.Hour, false}} {
				add.OnConflict = string(c.on)
				added, err := f.Add(t.Context(), ann, add)
				if err != nil {
					t.Fatal(err)
				}
				e := added[1].Entry
				if added[1].Outcome != c.outcome || (e.ID == active.ID) != c.isSame || !e.Expires.Equal(noon.Add(c.expires)) || added[1].Before.ID != active.ID {
					t.Errorf("%s: got %+v of %+v", c.on, e, added[1])
				}
			}
		}
	})
}

func TestBroadEntryNeedsConfirmationToAddProlongAndRestore(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		const other = "ip:11.0.0.0/8"
		for i, of := range []struct {
			kind  blocks.Kind
			broad string
		}{{blocks.Block, "ip:10.0.0.0/8"}, {blocks.Exemption, "ip:10.0.0.0/8"}, {blocks.Block, "category:ai-training"}, {blocks.Block, "bot:openai/gptbot"}, {blocks.Block, "bot:google/*"}, {blocks.Exemption, "bot:bing/bingbot"}} {
			kind, broad := of.kind, of.broad
			needs := func(what string, try func(confirm string) error) {
				t.Helper()
				for _, confirm := range []string{"", other} {
					err := try(confirm)
					var e *fault.Error
					if !errors.As(err, &e) || e.Code != fault.NeedConfirm || e.Field != "confirm" || e.Detail["confirm"] != broad || e.Detail["confirm_reason"] == "" {
						t.Fatalf("%s %s: got %+v", what, kind, err)
					}
				}
				if err := try(" " + broad + " "); err != nil {
					t.Fatalf("%s %s: %v", what, kind, err)
				}
			}
			var e *blocks.Entry
			needs("add", func(confirm string) error {
				added, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: kind, Patterns: []string{fmt.Sprint("token:", i), broad}, AddEntry: wire.AddEntry{ExpiresIn: wire.Duration(time.Hour), Confirm: confirm}})
				if err == nil {
					e = added[1].Entry
				}
				return err
			})
			update := func(length time.Duration) func(string) error {
				return func(confirm string) error {
					_, err := f.Update(t.Context(), ann, kind, e.ID, wire.EntryPatch{ExpiresIn: wire.To(wire.Duration(length)), Confirm: confirm})
					return err
				}
			}
			needs("prolong", update(2*time.Hour))
			if err := update(time.Hour)(""); err != nil {
				t.Fatalf("shorten: %v", err)
			}
			end := func(by admin.Caller) {
				t.Helper()
				if _, err := f.End(t.Context(), by, kind, "", e.ID); err != nil {
					t.Fatal(err)
				}
			}
			restore := func(confirm string) error {
				_, err := f.Restore(t.Context(), ann, kind, confirm, e.ID)
				return err
			}
			end(ann)
			f.now = f.now.Add(time.Minute)
			if err := restore(""); err != nil {
				t.Fatalf("Restore within a minute: %v", err)
			}
			if err := restore(""); err != nil {
				t.Fatalf("Restore of an active entry: %v", err)
			}
			end(ann)
			f.now = f.now.Add(time.Minute + time.Second)
			needs("restore later", restore)
			end(admin.Caller{Actor: audit.Actor{Kind: audit.User, Name: "ben"}})
			needs("restore after another caller's end", restore)
			end(ann)
			ended := f.records(t)[0]
			needs("undo the end", func(confirm string) error {
				_, err := f.undo.Undo(t.Context(), ann, ended.ID, confirm)
				return err
			})
			if got := f.active(t, kind); !slices.Contains(got, broad) {
				t.Errorf("active: %q", got)
			}
			f.now = noon
		}
	})
}

func TestUnconfirmedProlongationFailsAfterAConcurrentShortening(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		e := f.add(t, blocks.Block, "*", blocks.Expiry{For: 3 * time.Hour})
		shorten := func(length time.Duration) error {
			_, err := f.Update(t.Context(), ann, blocks.Block, e.ID, wire.EntryPatch{ExpiresIn: wire.To(wire.Duration(length))})
			return err
		}
		// Between reading and changing the entry, another operator shortens it more.
		f.Store = &shortened{f.Store, func() {
			f.Store = f.store.Entries
			if err := shorten(time.Hour); err != nil {
				t.Fatal(err)
			}
		}}
		if err := shorten(2 * time.Hour); !fault.Is(err, fault.Outdated) {
			t.Errorf("Update after a concurrent one: got %v, want Outdated", err)
		}
	})
}

func TestEndAndRestoreOfSeveralAreAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		a, b := f.add(t, blocks.Block, "token:a", blocks.Expiry{}), f.add(t, blocks.Block, "token:b", blocks.Expiry{})
		exempt := f.add(t, blocks.Exemption, "token:c", blocks.Expiry{})
		if _, err := f.End(t.Context(), ann, blocks.Block, "", a.ID, exempt.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("End of an exemption as a block: got %v, want NotFound", err)
		}
		if got := f.active(t, blocks.Block); len(got) != 2 {
			t.Fatalf("active: %q", got)
		}
		ended, err := f.End(t.Context(), ann, blocks.Block, "a mistake", a.ID, b.ID)
		if err != nil || len(ended) != 2 || ended[0].EndedBy() != "ann" || !strings.Contains(f.records(t)[0].Summary, "a mistake") {
			t.Fatalf("End: got %+v, %v", ended, err)
		}
		f.add(t, blocks.Block, "token:b", blocks.Expiry{})
		if _, err := f.Restore(t.Context(), ann, blocks.Block, "", a.ID, b.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("got %v", err)
		}
		if got := f.active(t, blocks.Block); !slices.Equal(got, []string{"token:b"}) {
			t.Errorf("active: %q", got)
		}
	})
}

func TestBlockMatchingBlocksAllMatchingKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.count(t, map[string][2]int64{"ip:198.51.100.7": {1, 5}, "token:a": {1, 9}, "token:b": {0, 2}, "token:c": {3, 0}})
		known := f.add(t, blocks.Block, "token:a", blocks.Expiry{For: time.Hour})
		b := admin.BlockMatching{Query: offences.Query{From: noon.Add(-time.Hour), To: noon, Pattern: keytest.Pattern(t, "token:*")}, Count: 1, AddEntry: wire.AddEntry{Reason: "scraping", ExpiresIn: wire.Duration(2 * time.Hour)}}
		if _, err := f.BlockMatching(t.Context(), ann, b); !isField(err, "count") {
			t.Fatalf("got %v", err)
		}
		b.Count = 2
		made, err := f.BlockMatching(t.Context(), ann, b)
		if err != nil || made.Created != 1 || made.Unchanged != 1 {
			t.Fatalf("BlockMatching: got %+v, %v; want 1 created and 1 unchanged", made, err)
		}
		if e, err := f.ByID(t.Context(), blocks.Block, known.ID); err != nil || !e.Expires.Equal(noon.Add(time.Hour)) {
			t.Errorf("the block that was active is now %+v, %v; want it unchanged", e, err)
		}
		b.OnConflict = wire.ConflictExtend
		if made, err = f.BlockMatching(t.Context(), ann, b); err != nil || made.Extended != 1 || made.Unchanged != 1 {
			t.Fatalf("BlockMatching with extend: got %+v, %v; want 1 extended and 1 unchanged", made, err)
		}
		if e := f.catalog.Blocks().Of(blocks.Block, keytest.Pattern(t, "token:b"), noon); e == nil || e.Source != blocks.Manual || e.Author != "ann" || e.Reason != "scraping" {
			t.Errorf("got %+v", e)
		}
		for field, wrong := range map[string]func(*admin.BlockMatching){
			"reason":      func(b *admin.BlockMatching) { b.Reason = "\n" },
			"expires_at":  func(b *admin.BlockMatching) { b.ExpiresIn, b.ExpiresAt = 0, wire.At(noon) },
			"on_conflict": func(b *admin.BlockMatching) { b.OnConflict = wire.ConflictFail },
			"":            func(b *admin.BlockMatching) { b.Query.Search = "nobody" },
		} {
			bad := b
			wrong(&bad)
			if _, err := f.BlockMatching(t.Context(), ann, bad); !isField(err, field) {
				t.Errorf("got %v, want the field %q", err, field)
			}
		}
	})
}

// shortened is a store with which another operator acts after an entry was read.
type shortened struct {
	admin.EntryStore
	act func()
}

func (s *shortened) Update(ctx context.Context, by audit.Actor, kind blocks.Kind, id string, p wire.EntryPatch) (*blocks.Entry, error) {
	s.act()
	return s.EntryStore.Update(ctx, by, kind, id, p)
}
