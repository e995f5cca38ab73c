package entries_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/test/storetest"
)

func TestImportBlocksFollowsOnConflict(t *testing.T) {
	for on, want := range map[blocks.Conflict]struct {
		result  blocks.ImportResult
		activeA time.Duration // 0: permanent
		activeD time.Duration
		reasonA string
	}{
		"":             {blocks.ImportResult{Created: 3, Unchanged: 3}, time.Hour, time.Hour, "scraping"},
		blocks.Extend:  {blocks.ImportResult{Created: 3, Extended: 2, Unchanged: 1}, 2 * time.Hour, 3 * time.Hour, "scraping"},
		blocks.Replace: {blocks.ImportResult{Created: 3, Replaced: 3}, 2 * time.Hour, 3 * time.Hour, "imported"},
	} {
		t.Run(string(on), func(t *testing.T) {
			storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
				now := f.Clock.Now()
				storetest.AddEntry(t, f, storetest.NewBlock(t, "token:expired", now.Add(time.Second)), blocks.Fail)
				f.Clock.Advance(time.Second)
				storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", now.Add(time.Hour)), blocks.Fail)
				storetest.AddEntry(t, f, storetest.NewBlock(t, "token:b", time.Time{}), blocks.Fail)
				revision := storetest.ChangesSince(t, f, 0).Revision

				row := func(text string, d time.Duration) blocks.Entry {
					b := storetest.NewBlock(t, text, now.Add(d))
					b.Reason = "imported"
					return b
				}
				var reported int
				result, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Sequence(
					row("token:a", 2*time.Hour), row("token:b", time.Hour), row("token:c", time.Hour),
					row("token:expired", time.Hour), row("token:d", time.Hour), row("token:d", 3*time.Hour),
				), on, func(done int) { reported = done })
				record, found := f.Audit.FindRecordByID(t.Context(), result.RecordID)
				if found != nil || record.Action != "block.import" {
					t.Fatalf("the record %d is %+v, %v", result.RecordID, record, found)
				}
				want.result.RecordID = result.RecordID
				if err != nil || result != want.result || reported != 6 {
					t.Fatalf("got %+v with progress %d, %v; want %+v", result, reported, err, want.result)
				}
				got := storetest.ChangesSince(t, f, revision)
				if got.Revision != revision+1 {
					t.Errorf("the import has revision %d, want the one after %d", got.Revision, revision)
				}
				page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
				if err != nil || storetest.Patterns(page.Items) != "token:a token:b token:c token:d token:expired" {
					t.Fatalf("active: %s, %v", storetest.Patterns(page.Items), err)
				}
				for _, b := range page.Items {
					switch b.Pattern.String() {
					case "token:a":
						if !b.Expires.Equal(now.Add(want.activeA)) || b.Reason != want.reasonA {
							t.Errorf("token:a is %+v", b)
						}
					case "token:d":
						if !b.Expires.Equal(now.Add(want.activeD)) || b.Source != blocks.Imported || b.Author != "ann" {
							t.Errorf("token:d is %+v", b)
						}
					}
				}
			})
		})
	}
}

func TestImportBlocksIsAllOrNothing(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		broken := errors.New("line 4 is broken")
		_, err := f.Entries.Import(t.Context(), storetest.Operator, func(yield func(blocks.Entry, error) bool) {
			for b := range storetest.Blocks(t, 1200) {
				if !yield(b, nil) {
					return
				}
			}
			yield(blocks.Entry{Kind: blocks.Block}, broken)
		}, blocks.Keep, nil)
		if !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
		_, err = f.Entries.Import(t.Context(), storetest.Operator, storetest.Sequence(storetest.NewBlock(t, "token:a", time.Time{}), storetest.NewBlock(t, "token:b", f.Clock.Now())), blocks.Keep, nil)
		var e *fault.Error
		if !errors.As(err, &e) || e.Field != "rows[1].expires_at" {
			t.Fatalf("got %v, want a fault of the second row", err)
		}
		_, err = f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, 1), "perhaps", nil)
		storetest.WantFault(t, err, fault.Invalid)
		if page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"}); err != nil || page.Total != 0 {
			t.Fatalf("%d blocks are left, %v", page.Total, err)
		}
	})
}

func TestImportBlocksStopsWithContext(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := f.Entries.Import(ctx, storetest.Operator, storetest.Blocks(t, 3000), blocks.Keep, func(int) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"}); err != nil || page.Total != 0 {
			t.Fatalf("%d blocks are left, %v", page.Total, err)
		}
	})
}

func TestImportBlocksDoesNotBlockReaders(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		before := storetest.ChangesSince(t, f, 0).Revision
		var read atomic.Int32
		result, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, 2000), blocks.Keep, func(int) {
			// This runs inside the transaction of the import, which others cannot see yet.
			if got := storetest.ChangesSince(t, f, 0); got.Revision != before || len(got.Blocks) != 0 {
				t.Errorf("a reader sees revision %d with %d blocks", got.Revision, len(got.Blocks))
			}
			read.Add(1)
		})
		if err != nil || result.Created != 2000 || read.Load() == 0 {
			t.Fatalf("got %+v with %d reads during it, %v", result, read.Load(), err)
		}
		if got := storetest.ChangesSince(t, f, before); len(got.Blocks) != 2000 {
			t.Fatalf("%d blocks changed, want 2000", len(got.Blocks))
		}
	})
}

func TestImportBlocksWithoutNewRowsRecordsNoChange(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for range 2 {
			if _, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, 3), blocks.Keep, nil); err != nil {
				t.Fatal(err)
			}
		}
		page, err := f.Audit.FindRecords(t.Context(), audit.Filter{Action: "block.import"})
		if err != nil || len(page.Records) != 1 {
			t.Fatalf("%d audit records, want 1; %v", len(page.Records), err)
		}
		if got := string(page.Records[0].After); got != `{"created":3,"extended":0,"replaced":0,"unchanged":0}` {
			t.Fatalf("got the audit record %s", got)
		}
	})
}

// An import has no effect on the blocks of other patterns, whatever the clock of its node says.
func TestImportBlocksWithFastClockKeepsOtherBlocks(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:other", f.Clock.Now().Add(10*time.Minute)), blocks.Fail)
		f.Clock.Advance(40 * time.Minute)
		rows := storetest.Sequence(storetest.NewBlock(t, "token:imported", f.Clock.Now().Add(time.Hour)))
		if _, err := f.Entries.Import(t.Context(), storetest.Operator, rows, blocks.Keep, nil); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(-40 * time.Minute)
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
		if err != nil || storetest.Patterns(page.Items) != "token:imported token:other" {
			t.Errorf("active: %s, %v", storetest.Patterns(page.Items), err)
		}
	})
}

func TestImportIsOfOneKind(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		exemption := storetest.NewBlock(t, "token:a", time.Time{})
		exemption.Kind = blocks.Exemption
		_, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Sequence(exemption, storetest.NewBlock(t, "token:b", time.Time{})), blocks.Keep, nil)
		var e *fault.Error
		if !errors.As(err, &e) || e.Field != "rows[1].kind" {
			t.Fatalf("got %v, want a fault of the second row", err)
		}
		exemption.Scope = "login"
		_, err = f.Entries.Import(t.Context(), storetest.Operator, storetest.Sequence(exemption), blocks.Keep, nil)
		if !errors.As(err, &e) || e.Field != "rows[0].scope" {
			t.Fatalf("got %v, want a fault of the scope", err)
		}
		for _, kind := range []blocks.Kind{blocks.Block, blocks.Exemption} {
			if page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: kind, State: "all"}); err != nil || page.Total != 0 {
				t.Fatalf("%d %ss are left, %v", page.Total, kind, err)
			}
		}
	})
}
