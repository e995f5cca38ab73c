package entries_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// from returns a block that a named source adds.
func from(t *testing.T, pattern, source string, expires time.Time) blocks.Entry {
	t.Helper()
	b := storetest.NewBlock(t, pattern, expires)
	b.Reason, b.From = "of "+source, &blocks.Holder{Name: source}
	return b
}

// holders returns the names of the sources of an entry, the longest first.
func holders(t *testing.T, f *storetest.Fixture, id string) string {
	t.Helper()
	shares, err := f.Entries.Shares(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(blocks.NamesOf(shares[id]), " ")
}

func TestAnEntryEndsWithTheLastOfItsSources(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		long, short := now.Add(time.Hour), now.Add(time.Minute)
		add := func(e blocks.Entry, on blocks.Conflict, want blocks.Outcome) *blocks.Entry {
			t.Helper()
			added, err := f.Entries.Add(t.Context(), storetest.Operator, on, e)
			if err != nil || added[0].Outcome != want {
				t.Fatalf("got %+v, %v; want %s", added, err, want)
			}
			return added[0].Entry
		}
		end := func(id, source string) *blocks.Entry {
			t.Helper()
			e, err := f.Entries.EndShare(t.Context(), storetest.Operator, blocks.Block, id, blocks.Holder{Name: source}, "")
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		id := add(from(t, "token:a", "jail/long", long), blocks.Fail, blocks.Created).ID
		if e := add(from(t, "token:a", "jail/short", short), blocks.Fail, blocks.Joined); e.ID != id || !e.Expires.Equal(long) || e.Reason != "of jail/long" {
			t.Errorf("with a shorter share: got %+v", e)
		}
		_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, from(t, "token:a", "jail/short", long))
		storetest.WantFault(t, err, fault.Conflict)
		if got := holders(t, f, id); got != "jail/long jail/short" {
			t.Errorf("held by %q", got)
		}

		// The end of one is not the end of the other, in both orders; other nodes and bouncers see the change.
		revision := storetest.ChangesSince(t, f, 0).Revision
		if e := end(id, "jail/long"); !e.ActiveAt(now) || !e.Expires.Equal(short) || e.Reason != "of jail/short" {
			t.Errorf("without the longer share: got %+v", e)
		}
		if got := storetest.ChangesSince(t, f, revision).Blocks; len(got) != 1 || !got[0].Expires.Equal(short) {
			t.Errorf("other nodes get %+v", got)
		}
		record := storetest.NewestRecord(t, f)
		undone, err := f.Undo(t.Context(), storetest.Operator, record.ID)
		if err != nil || undone.Action != "block.update" || holders(t, f, id) != "jail/long jail/short" {
			t.Errorf("undone: %+v, %v, held by %q", undone, err, holders(t, f, id))
		}
		if e := end(id, "jail/short"); !e.Expires.Equal(long) || holders(t, f, id) != "jail/long" {
			t.Errorf("without the shorter share: got %+v", e)
		}
		_, err = f.Entries.EndShare(t.Context(), storetest.Operator, blocks.Block, id, blocks.Holder{Name: "jail/short"}, "")
		storetest.WantFault(t, err, fault.NotFound)
		if e := end(id, "jail/long"); e.ActiveAt(now) {
			t.Errorf("without any share: got %+v", e)
		}

		// A longer share leads, and an operator's extension is a share of the operator.
		id = add(from(t, "token:b", "jail/short", short), blocks.Fail, blocks.Created).ID
		byHand := storetest.NewBlock(t, "token:b", long)
		if e := add(byHand, blocks.Extend, blocks.Joined); e.ID != id || !e.Expires.Equal(long) || e.Author != storetest.Operator.Name {
			t.Errorf("extended by hand: got %+v", e)
		}
		end(id, "jail/short")
		if got := holders(t, f, id); got != storetest.Operator.Name {
			t.Errorf("after the jail ended its share: held by %q", got)
		}

		// An end by hand ends all, a restore brings all back, and a change of the end concerns all.
		add(from(t, "token:b", "jail/short", short), blocks.Fail, blocks.Joined)
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", id); err != nil {
			t.Fatal(err)
		}
		if record := storetest.NewestRecord(t, f); !strings.Contains(record.Summary, "for all 2 sources ("+storetest.Operator.Name+", jail/short)") {
			t.Errorf("the record is %q", record.Summary)
		}
		if _, err := f.Entries.Restore(t.Context(), storetest.Operator, blocks.Block, id); err != nil || holders(t, f, id) != storetest.Operator.Name+" jail/short" {
			t.Errorf("restored: %v, held by %q", err, holders(t, f, id))
		}
		soon := now.Add(time.Second)
		if e, err := f.Entries.Update(t.Context(), storetest.Operator, blocks.Block, id, wire.EntryPatch{ExpiresAt: wire.To(wire.At(soon))}); err != nil || !e.Expires.Equal(soon) {
			t.Errorf("shortened: %+v, %v", e, err)
		}
		if e := end(id, storetest.Operator.Name); !e.Expires.Equal(soon) {
			t.Errorf("another source holds it until %s, want %s", e.Expires, soon)
		}

		// The list finds every source and author.
		for filter, want := range map[blocks.Filter]int{{Holder: "jail/short"}: 1, {Holder: "jail/long"}: 0, {Author: storetest.Operator.Name}: 1, {Holder: "none"}: 0} {
			if page, err := f.Entries.Find(t.Context(), filter); err != nil || len(page.Items) != want {
				t.Errorf("%+v finds %d, %v; want %d", filter, len(page.Items), err, want)
			}
		}
	})
}

func TestListsShareTheEntriesOfTheirImports(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		pull := func(list string, expires time.Time, patterns ...string) blocks.ImportResult {
			t.Helper()
			var rows []blocks.Entry
			for _, p := range patterns {
				rows = append(rows, from(t, p, list, expires))
			}
			result, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Sequence(rows...), blocks.Extend, nil)
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		pull("drop", now.Add(time.Hour), "token:a", "token:b")
		if got := pull("edge", now.Add(2*time.Hour), "token:b", "token:c"); got.Created != 1 || got.Extended != 1 {
			t.Errorf("the second list: %+v", got)
		}
		if got := pull("edge", now.Add(2*time.Hour), "token:b", "token:c"); got.Unchanged != 2 {
			t.Errorf("the second list once more: %+v", got)
		}
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Holder: "drop"})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, e := range page.Items {
			found = append(found, e.Pattern.String()+" "+holders(t, f, e.ID)+" "+e.Expires.Sub(now).String())
		}
		slices.Sort(found)
		if want := []string{"token:a drop 1h0m0s", "token:b edge drop 2h0m0s"}; !slices.Equal(found, want) {
			t.Errorf("the first list holds %q, want %q", found, want)
		}
	})
}

// A node of the previous release writes no sources: its entry has one, its author, and its changes
// are changes of the longest share.
func TestEntriesOfThePreviousReleaseAreHeldByTheirAuthor(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		e := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", now.Add(time.Minute)), blocks.Fail).Entry
		if got := holders(t, f, e.ID); got != e.Author {
			t.Errorf("held by %q, want %q", got, e.Author)
		}
		if _, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, from(t, "token:a", "jail", now.Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		if got := holders(t, f, e.ID); got != "jail "+e.Author {
			t.Errorf("held by %q", got)
		}
	})
}
