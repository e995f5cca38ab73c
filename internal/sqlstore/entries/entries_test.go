package entries_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestAddBlockStoresEveryField(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		until := f.Clock.Now().Add(time.Hour)
		b := storetest.NewBlock(t, "ip:203.0.113.0/24", until)
		b.Source, b.PolicyID, b.Level, b.Author = blocks.Automatic, 7, 3, "escalation"
		added := storetest.AddEntry(t, f, b, blocks.Fail)
		read, err := f.Entries.ByID(t.Context(), blocks.Block, added.Entry.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*blocks.Entry{added.Entry, read} {
			if got.Pattern.String() != "ip:203.0.113.0/24" || got.Reason != "scraping" || got.Author != "escalation" || got.Source != blocks.Automatic ||
				got.PolicyID != 7 || got.Level != 3 || !got.Created.Time().Equal(f.Clock.Now()) || !got.Expires.Equal(until) || !got.Ended().IsZero() || got.Revision != 2 {
				t.Errorf("got %+v", got)
			}
		}
		_, err = f.Entries.ByID(t.Context(), blocks.Block, "nothing\x00")
		storetest.WantFault(t, err, fault.NotFound)
	})
}

// TestNoFieldOfABlockIsLost on any way into the database, out of it, and back from an end.
func TestNoFieldOfABlockIsLost(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		until := f.Clock.Now().Add(time.Hour)
		added := storetest.FullBlock(t, "ip:203.0.113.0/24", until)
		id := storetest.AddEntry(t, f, added, blocks.Fail).Entry.ID
		imported := storetest.FullBlock(t, "ip:198.51.100.0/24", until)
		if _, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Sequence(imported), "", nil); err != nil {
			t.Fatal(err)
		}
		want := func(what string, all []*blocks.Entry, err error, wanted ...blocks.Entry) {
			t.Helper()
			if err != nil || len(all) != len(wanted) {
				t.Fatalf("%s: %d blocks, %v", what, len(all), err)
			}
			for _, e := range all {
				at := slices.IndexFunc(wanted, func(w blocks.Entry) bool { return w.Pattern == e.Pattern })
				got := *e
				got.ID, got.Created, got.Revision = "", 0, 0
				if !got.Expires.Equal(wanted[at].Expires) {
					t.Errorf("%s: it expires at %v, want %v", what, got.Expires, wanted[at].Expires)
				}
				if got.Expires = wanted[at].Expires; got != wanted[at] {
					t.Errorf("%s: got %+v, want %+v", what, got, wanted[at])
				}
			}
		}
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
		want("the list", page.Items, err, added, imported)
		each, err := storetest.Collect(f.Entries.Each(t.Context(), blocks.Filter{Kind: blocks.Block}))
		want("the export", each, err, added, imported)
		want("the changes that nodes read", storetest.ChangesSince(t, f, 0).Blocks, nil, added, imported)
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", id); err != nil {
			t.Fatal(err)
		}
		restored, err := f.Entries.Restore(t.Context(), storetest.Operator, blocks.Block, id)
		want("a block that was restored", restored, err, added)
	})
}

func TestAddBlockFollowsOnConflict(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		first := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", now.Add(time.Hour)), blocks.Fail).Entry

		_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
		storetest.WantFault(t, err, fault.Conflict)
		var e *fault.Error
		if errors.As(err, &e); e.Detail["id"] != first.ID {
			t.Fatalf("the fault %+v does not contain the id of the block", e)
		}

		sooner := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", now.Add(time.Minute)), blocks.Extend)
		if sooner.Outcome != blocks.Unchanged || !sooner.Entry.Expires.Equal(first.Expires) || sooner.Entry.Revision != first.Revision {
			t.Fatalf("extending to an earlier end: got %+v", sooner)
		}
		longer := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Extend)
		if longer.Outcome != blocks.Extended || longer.Entry.ID != first.ID || !longer.Entry.Expires.IsZero() || !longer.Before.Expires.Equal(first.Expires) {
			t.Fatalf("extending: got %+v", longer)
		}
		other := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", now.Add(time.Second)), blocks.Replace)
		if other.Outcome != blocks.Replaced || other.Entry.ID == first.ID || other.Before.ID != first.ID {
			t.Fatalf("replacing: got %+v", other)
		}
		old, err := f.Entries.ByID(t.Context(), blocks.Block, first.ID)
		if err != nil || old.EndedBy() != "ann" || old.Ended().IsZero() {
			t.Fatalf("the replaced block is %+v, %v", old, err)
		}
		_, err = f.Entries.Add(t.Context(), storetest.Operator, "perhaps", storetest.NewBlock(t, "token:a", time.Time{}))
		storetest.WantFault(t, err, fault.Invalid)
	})
}

func TestAddBlockIgnoresExpiredBlock(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for range 3 {
			added := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", f.Clock.Now().Add(time.Second)), blocks.Fail)
			if added.Outcome != blocks.Created {
				t.Fatalf("got the outcome %s, want created", added.Outcome)
			}
			f.Clock.Advance(time.Second)
		}
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"})
		if err != nil || page.Total != 3 {
			t.Fatalf("%d blocks, %v", page.Total, err)
		}
	})
}

func TestAddBlockRejectsInvalidEntries(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", f.Clock.Now()))
		storetest.WantFault(t, err, fault.Invalid)
		b := storetest.NewBlock(t, "token:a", time.Time{})
		for _, reason := range []string{"a\x00b", "a\xffb"} {
			b.Reason = reason
			_, err = f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, b)
			storetest.WantFault(t, err, fault.Invalid)
		}
		_, err = f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block})
		storetest.WantFault(t, err, fault.Invalid)
	})
}

func TestAddBlockStoresHostileTextUnchanged(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for _, text := range []string{
			"token:'; DROP TABLE blocks; --", `token:"quoted"`, "token:ünïcødé", "token:\u202egnp", "token:😀", `token:a\*b*`, `token:\\`,
			"token:" + strings.Repeat("é", 253), "token:$1", "token:%_", "token:{table}",
		} {
			b := storetest.NewBlock(t, text, time.Time{})
			b.Reason = text
			id := storetest.AddEntry(t, f, b, blocks.Fail).Entry.ID
			read, err := f.Entries.ByID(t.Context(), blocks.Block, id)
			if err != nil || read.Pattern.String() != text || read.Reason != text {
				t.Errorf("%q was read back as %+v, %v", text, read, err)
			}
			page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, Search: text})
			if err != nil || len(page.Items) != 1 {
				t.Errorf("searching %q found %d blocks, want 1; %v", text, len(page.Items), err)
			}
		}
	})
}

func TestAddBlockByTwoNodesConcurrentlyAddsOne(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		second := f.Store
		if f.Postgres() {
			second = f.Another(t)
		}
		outcomes := make(chan error, 30)
		var writers sync.WaitGroup
		for n := range 30 {
			b := storetest.NewBlock(t, "ip:203.0.113.7", time.Time{})
			store := []*sqlstore.Store{f.Store, second}[n%2]
			writers.Go(func() {
				_, err := store.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, b)
				outcomes <- err
			})
		}
		writers.Wait()
		close(outcomes)
		made := 0
		for err := range outcomes {
			if err == nil {
				made++
				continue
			}
			storetest.WantFault(t, err, fault.Conflict)
		}
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"})
		if made != 1 || err != nil || page.Total != 1 {
			t.Fatalf("%d were added and %d are stored, want 1; %v", made, page.Total, err)
		}
	})
}

func TestUpdateAndEndBlock(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, now := t.Context(), f.Clock.Now()
		b := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", now.Add(time.Hour)), blocks.Fail).Entry
		reason, permanent, past := "worse", time.Time{}, now
		_, err := f.Entries.Update(ctx, storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{Reason: wire.To(reason), Revision: b.Revision + 1})
		storetest.WantFault(t, err, fault.Outdated)
		_, err = f.Entries.Update(ctx, storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{ExpiresAt: wire.To(wire.At(past))})
		storetest.WantFault(t, err, fault.Invalid)
		changed, err := f.Entries.Update(ctx, storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{Reason: wire.To(reason), ExpiresAt: wire.To(wire.At(permanent)), Revision: b.Revision})
		if err != nil || changed.Reason != "worse" || !changed.Expires.IsZero() || changed.Revision <= b.Revision {
			t.Fatalf("Update() = %+v, %v", changed, err)
		}
		same, err := f.Entries.Update(ctx, storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{Reason: wire.To(reason)})
		if err != nil || same.Revision != changed.Revision {
			t.Fatalf("an equal update: got %+v, %v, want the same revision", same, err)
		}
		ended, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "by mistake", b.ID)
		if err != nil || !ended[0].Ended().Equal(now) || ended[0].EndedBy() != "ann" {
			t.Fatalf("End() = %+v, %v", ended, err)
		}
		_, err = f.Entries.End(ctx, storetest.Operator, blocks.Block, "", b.ID)
		storetest.WantFault(t, err, fault.Conflict)
		_, err = f.Entries.Update(ctx, storetest.Operator, blocks.Block, b.ID, wire.EntryPatch{Reason: wire.To(reason)})
		storetest.WantFault(t, err, fault.Conflict)
		_, err = f.Entries.End(ctx, storetest.Operator, blocks.Block, "", "none")
		storetest.WantFault(t, err, fault.NotFound)

		expiring := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:b", now.Add(time.Second)), blocks.Fail).Entry
		f.Clock.Advance(time.Second)
		_, err = f.Entries.End(ctx, storetest.Operator, blocks.Block, "", expiring.ID)
		storetest.WantFault(t, err, fault.Conflict)
	})
}

func TestFindBlocksByFilter(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		for _, text := range []string{
			"ip:203.0.113.7", "ip:203.0.113.0/24", "ip:203.0.0.0/16", "ip:198.51.100.1", "ip:2001:db8::/64", "ip:2001:db8::1/128", "ip:*",
			"token:Alpha", "token:al*", `token:al\*`, "token:b", "host:x",
		} {
			b := storetest.NewBlock(t, text, time.Time{})
			b.Reason = "because of " + text
			storetest.AddEntry(t, f, b, blocks.Fail)
		}
		gone := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:gone", now.Add(time.Second)), blocks.Fail).Entry
		ended := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:ended", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", ended.ID); err != nil {
			t.Fatal(err)
		}
		automatic := storetest.NewBlock(t, "token:auto", time.Time{})
		automatic.Source, automatic.Author, automatic.Reason = blocks.Automatic, "escalation", "ÉCLAT"
		storetest.AddEntry(t, f, automatic, blocks.Fail)
		f.Clock.Advance(time.Second)

		for name, test := range map[string]struct {
			filter blocks.Filter
			want   string
		}{
			"state ended":                        {blocks.Filter{State: "ended"}, "token:ended token:gone"},
			"ended blocks":                       {blocks.Filter{Kind: blocks.Block, State: "ended"}, "token:ended token:gone"},
			"ended blocks with a text":           {blocks.Filter{Kind: blocks.Block, State: "ended", Search: "gone"}, "token:gone"},
			"before one expired":                 {blocks.Filter{Search: "gone", At: gone.Created.Time()}, "token:gone"},
			"by source":                          {blocks.Filter{Source: blocks.Automatic}, "token:auto"},
			"by author":                          {blocks.Filter{Author: "escalation"}, "token:auto"},
			"search ignores the case of ASCII":   {blocks.Filter{Search: "ALPHA"}, "token:Alpha"},
			"search keeps the case of non-ASCII": {blocks.Filter{Search: "Éclat"}, "token:auto"},
			"search does not expand wildcards":   {blocks.Filter{Search: "a_"}, ""},
			"search reads reasons":               {blocks.Filter{Search: "of host"}, "host:x"},
			"by address":                         {blocks.Filter{Key: keytest.Key(t, "ip:203.0.113.7")}, "ip:* ip:203.0.0.0/16 ip:203.0.113.0/24 ip:203.0.113.7"},
			"by IPv6 address":                    {blocks.Filter{Key: keytest.Key(t, "ip:2001:db8::1")}, "ip:* ip:2001:db8::/64 ip:2001:db8::1/128"},
			"by IPv6 network":                    {blocks.Filter{Key: keytest.Key(t, "ip:2001:db8::/64")}, "ip:* ip:2001:db8::/64"},
			"by token":                           {blocks.Filter{Key: keytest.Key(t, "token:al*")}, `token:al* token:al\*`},
			"within a network":                   {blocks.Filter{Within: keytest.Pattern(t, "ip:203.0.113.0/24")}, "ip:203.0.113.0/24 ip:203.0.113.7"},
			"within all of IPv4":                 {blocks.Filter{Within: keytest.Pattern(t, "ip:0.0.0.0/0")}, "ip:198.51.100.1 ip:203.0.0.0/16 ip:203.0.113.0/24 ip:203.0.113.7"},
			"within all of IPv6":                 {blocks.Filter{Within: keytest.Pattern(t, "ip:::/0")}, "ip:2001:db8::/64 ip:2001:db8::1/128"},
			"within a prefix":                    {blocks.Filter{Within: keytest.Pattern(t, "token:al*")}, `token:al* token:al\*`},
			"within one key":                     {blocks.Filter{Within: keytest.Pattern(t, "token:b")}, "token:b"},
			"within every address":               {blocks.Filter{Within: keytest.Pattern(t, "ip:*"), Search: "2001"}, "ip:2001:db8::/64 ip:2001:db8::1/128"},
			"within everything":                  {blocks.Filter{Within: keytest.Pattern(t, "*"), Search: "host"}, "host:x"},
			"all filters must match":             {blocks.Filter{Source: blocks.Automatic, Search: "host"}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				page, err := f.Entries.Find(t.Context(), test.filter)
				if err != nil {
					t.Fatal(err)
				}
				if got := storetest.Patterns(page.Items); got != test.want {
					t.Errorf("found %s, want %s", got, test.want)
				}
				if page.Total != len(page.Items) {
					t.Errorf("got the total %d, want %d", page.Total, len(page.Items))
				}
			})
		}
	})
}

// Many matches are not counted, and the newest of many ended blocks are found as those of few.
func TestManyEndedBlocksAreNotCounted(t *testing.T) {
	f := storetest.OpenSQLite(t)
	newest := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:newest", f.Clock.Now().Add(time.Second)), blocks.Fail).Entry
	f.Clock.Advance(time.Minute)
	add := func(from, to int) {
		t.Helper()
		if _, err := f.Raw(t).ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO entries (id, kind, pattern, place, reason, author, source, created_at, expires_at, ended_at, revision)
			WITH RECURSIVE up(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM up WHERE n < %d)
			SELECT '01000000-0000-7000-8000-' || printf('%%012x', n), 'block', 'token:' || n, n, '', 'maria', 'manual', n, 9, n %% 2, 1 FROM up`, from, to)); err != nil {
			t.Fatal(err)
		}
	}
	find := func() paging.Page[*blocks.Entry] {
		t.Helper()
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "ended", Limit: 1})
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != newest.ID {
			t.Fatalf("got %+v, %v, want the newest", page, err)
		}
		return page
	}
	add(1, 9999)
	if page := find(); page.Total != 10_000 || page.Over {
		t.Errorf("got the total %d, %t, want exactly 10,000", page.Total, page.Over)
	}
	add(10_000, 10_000)
	if page := find(); page.Total != 10_000 || !page.Over {
		t.Errorf("got the total %d, %t, want more than 10,000", page.Total, page.Over)
	}
}

func TestFindBlocksPagesReturnEachBlockOnce(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		for n := range 23 {
			expires := now.Add(time.Duration(1+n%3) * time.Hour) // many equal ones
			if n%5 == 0 {
				expires = time.Time{}
			}
			storetest.AddEntry(t, f, storetest.NewBlock(t, "token:"+string(rune('a'+n)), expires), blocks.Fail)
		}
		for _, order := range []blocks.Order{blocks.ByCreated, blocks.ByExpiry} {
			var all []*blocks.Entry
			filter := blocks.Filter{Order: order, Limit: 4}
			for {
				page, err := f.Entries.Find(t.Context(), filter)
				if err != nil {
					t.Fatal(err)
				}
				if page.Total != 23 {
					t.Fatalf("got the total %d, want 23", page.Total)
				}
				all = append(all, page.Items...)
				if filter.Cursor = page.Next; filter.Cursor == "" {
					break
				}
			}
			if len(all) != 23 || len(strings.Fields(storetest.Patterns(all))) != 23 {
				t.Fatalf("%s: %d blocks: %s", order, len(all), storetest.Patterns(all))
			}
			if !slices.IsSortedFunc(all, func(a, b *blocks.Entry) int {
				if order == blocks.ByCreated {
					return strings.Compare(b.ID, a.ID)
				}
				return compareExpiry(a.Expires, b.Expires)
			}) {
				t.Errorf("order %s: the blocks are not sorted", order)
			}
			streamed := 0
			for b, err := range f.Entries.Each(t.Context(), blocks.Filter{Kind: blocks.Block, Order: order}) {
				if err != nil || b.ID != all[streamed].ID {
					t.Fatalf("%s: streamed %v, %v", order, b, err)
				}
				streamed++
			}
			if streamed != 23 {
				t.Errorf("%s: streamed %d blocks, want 23", order, streamed)
			}
		}
	})
}

func compareExpiry(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

func TestFindBlocksRejectsBadFilters(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:b", time.Time{}), blocks.Fail)
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, Limit: 1})
		if err != nil || page.Next == "" {
			t.Fatal(err)
		}
		for _, filter := range []blocks.Filter{
			{State: "dead"}, {Order: "random"}, {Limit: 1001}, {Limit: -1}, {Search: "\x00"}, {Cursor: "x"}, {Cursor: "Y3JlYXRlZA"},
			{Cursor: page.Next, Order: blocks.ByExpiry},
		} {
			_, err := f.Entries.Find(t.Context(), filter)
			storetest.WantFault(t, err, fault.Invalid)
		}
	})
}

func TestExemptionsAreAddedUpdatedAndEnded(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		e := blocks.Entry{Kind: blocks.Exemption, Pattern: keytest.Pattern(t, "ip:203.0.113.7"), Reason: "office", Expires: f.Clock.Now().Add(time.Hour)}
		added, err := f.Entries.Add(ctx, storetest.Operator, blocks.Fail, e)
		if err != nil || added[0].Outcome != blocks.Created || added[0].Entry.Author != "ann" {
			t.Fatalf("%+v, %v", added, err)
		}
		_, err = f.Entries.Add(ctx, storetest.Operator, blocks.Fail, e)
		storetest.WantFault(t, err, fault.Conflict)
		reason := "new office"
		if changed, err := f.Entries.Update(ctx, storetest.Operator, blocks.Exemption, added[0].Entry.ID, wire.EntryPatch{Reason: wire.To(reason)}); err != nil || changed.Reason != reason {
			t.Fatalf("%+v, %v", changed, err)
		}
		page, err := f.Entries.Find(ctx, blocks.Filter{Kind: blocks.Exemption, Key: keytest.Key(t, "ip:203.0.113.7")})
		if err != nil || page.Total != 1 || page.Items[0].Reason != reason {
			t.Fatalf("%+v, %v", page, err)
		}
		ended, err := f.Entries.End(ctx, storetest.Operator, blocks.Exemption, "moved", added[0].Entry.ID)
		if err != nil || ended[0].EndedBy() != "ann" {
			t.Fatalf("End() = %+v, %v", ended, err)
		}
		_, err = f.Entries.End(ctx, storetest.Operator, blocks.Exemption, "", added[0].Entry.ID)
		storetest.WantFault(t, err, fault.Conflict)
		for range f.Entries.Each(ctx, blocks.Filter{Kind: blocks.Exemption}) {
			t.Fatal("an ended exemption is still active")
		}
		if read, err := f.Entries.ByID(ctx, blocks.Exemption, added[0].Entry.ID); err != nil || read.Ended().IsZero() {
			t.Fatalf("%+v, %v", read, err)
		}
	})
}
