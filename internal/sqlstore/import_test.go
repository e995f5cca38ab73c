package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
)

func rowsOf(all ...blocks.Entry) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for _, b := range all {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// addresses yields n blocks of different addresses.
func addresses(t testing.TB, n int) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for i := range n {
			b := block(t, fmt.Sprintf("ip:10.%d.%d.%d", i>>16&255, i>>8&255, i&255), time.Time{})
			if !yield(b, nil) {
				return
			}
		}
	}
}

func TestImportBlocks_counts_by_what_on_conflict_says(t *testing.T) {
	for on, want := range map[blocks.Conflict]struct {
		result  blocks.ImportResult
		standA  time.Duration // 0: for good
		standD  time.Duration
		reasonA string
	}{
		blocks.Fail:    {blocks.ImportResult{Created: 3, Unchanged: 3}, time.Hour, time.Hour, "scraping"},
		blocks.Extend:  {blocks.ImportResult{Created: 3, Extended: 2, Unchanged: 1}, 2 * time.Hour, 3 * time.Hour, "scraping"},
		blocks.Replace: {blocks.ImportResult{Created: 3, Replaced: 3}, 2 * time.Hour, 3 * time.Hour, "imported"},
	} {
		t.Run(string(on), func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				now := f.clock.Now()
				add(t, f, block(t, "token:expired", now.Add(time.Second)), blocks.Fail)
				f.clock.Advance(time.Second)
				add(t, f, block(t, "token:a", now.Add(time.Hour)), blocks.Fail)
				add(t, f, block(t, "token:b", time.Time{}), blocks.Fail)
				revision := changesSince(t, f, 0).Revision

				row := func(text string, d time.Duration) blocks.Entry {
					b := block(t, text, now.Add(d))
					b.Reason = "imported"
					return b
				}
				var heard int
				result, err := f.Entries().Import(t.Context(), operator, rowsOf(
					row("token:a", 2*time.Hour), row("token:b", time.Hour), row("token:c", time.Hour),
					row("token:expired", time.Hour), row("token:d", time.Hour), row("token:d", 3*time.Hour),
				), on, func(done int) { heard = done })
				if err != nil || result != want.result || heard != 6 {
					t.Fatalf("%+v after hearing %d, %v; want %+v", result, heard, err, want.result)
				}
				got := changesSince(t, f, revision)
				if got.Revision != revision+1 {
					t.Errorf("took revision %d, want the one after %d", got.Revision, revision)
				}
				page, err := f.Entries().Find(t.Context(), blocks.Filter{Kind: blocks.Block})
				if err != nil || spellings(page.Items) != "token:a token:b token:c token:d token:expired" {
					t.Fatalf("standing: %s, %v", spellings(page.Items), err)
				}
				for _, b := range page.Items {
					switch b.Pattern.String() {
					case "token:a":
						if !b.Expires.Equal(now.Add(want.standA)) || b.Reason != want.reasonA {
							t.Errorf("token:a stands as %+v", b)
						}
					case "token:d":
						if !b.Expires.Equal(now.Add(want.standD)) || b.Source != blocks.Imported || b.Author != "ann" {
							t.Errorf("token:d stands as %+v", b)
						}
					}
				}
			})
		})
	}
}

func TestImportBlocks_is_all_or_nothing(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		broken := errors.New("line 4 is broken")
		_, err := f.Entries().Import(t.Context(), operator, func(yield func(blocks.Entry, error) bool) {
			for b := range addresses(t, 1200) {
				if !yield(b, nil) {
					return
				}
			}
			yield(blocks.Entry{Kind: blocks.Block}, broken)
		}, blocks.Fail, nil)
		if !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
		_, err = f.Entries().Import(t.Context(), operator, rowsOf(block(t, "token:a", time.Time{}), block(t, "token:b", f.clock.Now())), blocks.Fail, nil)
		var e *fault.Error
		if !errors.As(err, &e) || e.Field != "rows[1].expires_at" {
			t.Fatalf("got %v, want a fault of the second row", err)
		}
		_, err = f.Entries().Import(t.Context(), operator, addresses(t, 1), "perhaps", nil)
		wants(t, err, fault.Invalid)
		if page, err := f.Entries().Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"}); err != nil || page.Total != 0 {
			t.Fatalf("%d blocks are left, %v", page.Total, err)
		}
	})
}

func TestImportBlocks_ends_with_its_context(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := f.Entries().Import(ctx, operator, addresses(t, 3000), blocks.Fail, func(int) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if page, err := f.Entries().Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"}); err != nil || page.Total != 0 {
			t.Fatalf("%d blocks are left, %v", page.Total, err)
		}
	})
}

func TestImportBlocks_lets_readers_go_on(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		before := changesSince(t, f, 0).Revision
		var read atomic.Int32
		result, err := f.Entries().Import(t.Context(), operator, addresses(t, 2000), blocks.Fail, func(int) {
			// Inside the transaction of the import, which nobody sees yet.
			if got := changesSince(t, f, 0); got.Revision != before || len(got.blocks) != 0 {
				t.Errorf("a reader sees revision %d with %d blocks", got.Revision, len(got.blocks))
			}
			read.Add(1)
		})
		if err != nil || result.Created != 2000 || read.Load() == 0 {
			t.Fatalf("%+v with %d readers, %v", result, read.Load(), err)
		}
		if got := changesSince(t, f, before); len(got.blocks) != 2000 {
			t.Fatalf("%d blocks came", len(got.blocks))
		}
	})
}

func TestImportBlocks_that_brings_nothing_new_is_no_change(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for range 2 {
			if _, err := f.Entries().Import(t.Context(), operator, addresses(t, 3), blocks.Fail, nil); err != nil {
				t.Fatal(err)
			}
		}
		page, err := f.FindRecords(t.Context(), audit.Filter{Action: "block.import"})
		if err != nil || len(page.Records) != 1 {
			t.Fatalf("%d entries, %v", len(page.Records), err)
		}
		if got := string(page.Records[0].After); got != `{"created":3,"extended":0,"replaced":0,"unchanged":0}` {
			t.Fatalf("entry %s", got)
		}
	})
}
