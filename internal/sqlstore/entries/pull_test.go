package entries_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/test/storetest"
)

func rowsOf(list string) blocks.ListRows {
	return blocks.ListRows{Holder: blocks.ListHolder(list), Kind: blocks.Block}
}

func agree(blocks.PullDiff) error { return nil }

// TestInForceIsTheUnionOfTheLists pulls lists in any order, with patterns that several of them and
// an operator hold, and compares what is in force with the union of the last pulls.
func TestInForceIsTheUnionOfTheLists(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		rapid.Check(t, func(rt *rapid.T) {
			want := map[string]map[string]bool{"a": {}, "b": {}, "c": {}}
			for list := range want {
				if _, err := f.Entries.Pull(t.Context(), audit.SystemActor("list/"+list), rowsOf(list), storetest.Sequence(), agree); err != nil {
					rt.Fatal(err)
				}
			}
			for range rapid.IntRange(1, 8).Draw(rt, "pulls") {
				list := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "list")
				want[list] = map[string]bool{}
				var rows []blocks.Entry
				for _, n := range rapid.SliceOfN(rapid.IntRange(0, 7), 0, 8).Draw(rt, "rows") {
					pattern := fmt.Sprintf("token:%d", n)
					want[list][pattern] = true
					rows = append(rows, storetest.NewBlock(t, pattern, time.Time{}))
				}
				diff, err := f.Entries.Pull(t.Context(), audit.SystemActor("list/"+list), rowsOf(list), storetest.Sequence(rows...), agree)
				if err != nil || diff.Rows != len(want[list]) {
					rt.Fatalf("got %+v, %v", diff, err)
				}
				union := map[string]bool{}
				for name, rows := range want {
					for pattern := range rows {
						union[pattern] = true
					}
					page, err := f.Entries.Find(t.Context(), blocks.Filter{Holder: blocks.ListHolder(name)})
					if err != nil || page.Total != len(rows) {
						rt.Fatalf("the list %s has %d rows, want %v; %v", name, page.Total, rows, err)
					}
				}
				page, err := f.Entries.Find(t.Context(), blocks.Filter{Lists: true})
				if err != nil || page.Total != len(union) {
					rt.Fatalf("in force are %s, want %v; %v", storetest.Patterns(page.Items), union, err)
				}
			}
		})
	})
}

// BenchmarkPull pulls a list of 100,000 rows, 50,000 of them new and as many gone, which other lists hold
// too.
func BenchmarkPull(b *testing.B) {
	const size = 100_000
	list := func(from, size int) iter.Seq2[blocks.Entry, error] {
		return func(yield func(blocks.Entry, error) bool) {
			for n := from; n < from+size; n++ {
				if !yield(storetest.NewBlock(b, fmt.Sprintf("ip:10.%d.%d.%d", n>>16, n>>8&255, n&255), time.Time{}), nil) {
					return
				}
			}
		}
	}
	for name, open := range map[string]func(testing.TB) *storetest.Fixture{"SQLite": storetest.OpenSQLite, "Postgres": storetest.OpenPostgres} {
		b.Run(name, func(b *testing.B) {
			f := open(b)
			pull := func(holder string, rows iter.Seq2[blocks.Entry, error]) {
				if _, err := f.Entries.Pull(b.Context(), audit.SystemActor(holder), rowsOf(holder), rows, agree); err != nil {
					b.Fatal(err)
				}
			}
			pull("other", list(0, size/2))
			pull("other2", list(size, size/2))
			pull("bad", list(0, size))
			at := 0
			for b.Loop() {
				at = size/2 - at
				pull("bad", list(at, size))
			}
		})
	}
}
