package memory_test

import (
	"strconv"
	"sync"
	"testing"
	"unique"

	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

func rows(n int) []memory.Row {
	all := make([]memory.Row, n)
	for i := range all {
		all[i] = memory.Row{Key: unique.Make(strconv.Itoa(i)), Group: unique.Make(memory.Group{Policy: 1, RefusedBy: "1/1s"}), Offences: 1}
	}
	return all
}

func TestCacheEvictsLeastRecentlyUsedPart(t *testing.T) {
	c := memory.NewCache[memory.Row](10)
	slot := func(start int64) memory.Slot { return memory.Slot{Span: 1, Start: start} }
	marks := map[memory.Slot]string{slot(1): "a", slot(2): "b", slot(3): "c"}
	c.Put(memory.Part[memory.Row]{Slot: slot(1), Rows: rows(3)}, "a")
	c.Put(memory.Part[memory.Row]{Slot: slot(2), Rows: rows(3)}, "b")
	if _, missing, fits := c.Find([]memory.Slot{slot(1)}, marks); len(missing) != 0 || !fits {
		t.Fatalf("the first slot: missing %v, fits %t", missing, fits)
	}
	c.Put(memory.Part[memory.Row]{Slot: slot(3), Rows: rows(3)}, "c") // four rows too many with the slots
	parts, missing, fits := c.Find([]memory.Slot{slot(1), slot(2), slot(3)}, marks)
	if len(parts) != 2 || len(missing) != 1 || missing[0] != slot(2) || !fits {
		t.Errorf("got %d parts, missing %v, fits %t; want slot 2 missing", len(parts), missing, fits)
	}
	marks[slot(1)] = "changed"
	if _, missing, _ := c.Find([]memory.Slot{slot(1)}, marks); len(missing) != 1 {
		t.Error("Find returned a slot with another mark")
	}
	c.PutCount(slot(4), "", 10)
	if _, _, fits := c.Find([]memory.Slot{slot(4)}, marks); fits {
		t.Error("Find reports that more rows than the maximum fit")
	}
}

func TestCacheIsSafeForConcurrentUse(t *testing.T) {
	c := memory.NewCache[memory.Row](50)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 500 {
				slot := memory.Slot{Span: 1, Start: int64((i + g) % 20)}
				parts, _, _ := c.Find([]memory.Slot{slot}, map[memory.Slot]string{slot: "m"})
				if sums := memory.ByKey(parts, memory.Filter{}); len(parts) > 0 && len(sums) != 4 {
					t.Errorf("got %d keys, want 4", len(sums))
				}
				c.Put(memory.Part[memory.Row]{Slot: slot, Rows: rows(4)}, "m")
			}
		})
	}
	all.Wait()
}
