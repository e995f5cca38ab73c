package entries_test

import (
	"iter"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/test/storetest"
)

func TestExportHasEveryBlockThatIsReplacedDuringIt(t *testing.T) {
	const many = 2*paging.MaxLimit + 1
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		feed := func(yield func(blocks.Entry, error) bool) {
			for i := range many {
				if !yield(storetest.NewBlock(t, "token:"+strconv.Itoa(i), time.Time{}), nil) {
					return
				}
			}
		}
		load := func(all iter.Seq2[blocks.Entry, error]) {
			if _, err := f.Entries.Import(t.Context(), storetest.Operator, all, blocks.Replace, nil); err != nil {
				t.Fatal(err)
			}
		}
		load(feed)
		seen := map[string]bool{}
		for e, err := range f.Entries.Each(t.Context(), blocks.Filter{Kind: blocks.Block}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(seen) == 0 {
				load(feed)
			}
			if seen[e.Pattern.String()] {
				t.Fatalf("%s is there twice", e.Pattern)
			}
			seen[e.Pattern.String()] = true
		}
		if len(seen) != many {
			t.Errorf("got %d blocks, want %d", len(seen), many)
		}
	})
}

func TestExportedEntriesEqualThoseOfTheList(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		scoped := storetest.NewBlock(t, "ip:192.0.2.0/24", f.Clock.Now().Add(time.Hour))
		scoped.Scope, scoped.Source, scoped.PolicyID, scoped.Level = "login", blocks.Automatic, 7, 3
		storetest.AddEntry(t, f, scoped, blocks.Fail)
		exemption := storetest.NewBlock(t, "token:b", time.Time{})
		exemption.Kind = blocks.Exemption
		storetest.AddEntry(t, f, exemption, blocks.Fail)
		ended := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a*", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", ended.ID); err != nil {
			t.Fatal(err)
		}
		f.Exec(t, `UPDATE entries SET pattern = 'asn:corp-12' WHERE id = '`+ended.ID+`'`) // no version accepts it any more
		all := blocks.Filter{State: "all"}
		page, err := f.Entries.Find(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		got, err := storetest.Collect(f.Entries.Each(t.Context(), all))
		if err != nil || len(got) != 3 || !reflect.DeepEqual(got, page.Items) {
			t.Errorf("got %+v, %v, want %+v", got, err, page.Items)
		}
	})
}
