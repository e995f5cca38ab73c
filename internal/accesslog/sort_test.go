package accesslog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/keys"
)

// shuffled returns records whose costs distinguish equal ones.
func shuffled(t testing.TB, n, span int) []accesslog.Record {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	addresses := []string{"ip:192.0.2.1", "ip:2001:db8::1", "ip:2001:db8::2", "token:abc", "plain", "-"}
	records := make([]accesslog.Record, n)
	for i := range records {
		key, err := keys.Parser{}.Key(addresses[random.IntN(len(addresses))])
		if err != nil {
			t.Fatal(err)
		}
		records[i] = accesslog.Record{Time: random.Int64N(int64(span)), Key: key, Cost: i%1000 + 1}
	}
	return records
}

func sortStably(records []accesslog.Record) []accesslog.Record {
	want := slices.Clone(records)
	slices.SortStableFunc(want, func(a, b accesslog.Record) int { return int(a.Time - b.Time) })
	return want
}

func TestSortIsStableInMemoryAndWhenItSpills(t *testing.T) {
	for name, memory := range map[string]int64{"in memory": 0, "spilling often": 1, "spilling a few times": 100_000} {
		t.Run(name, func(t *testing.T) {
			records := shuffled(t, 5_000, 400)
			sorted, err := accesslog.Sort(context.Background(), accesslog.Slice(records), accesslog.SortOptions{Memory: memory, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer sorted.Close()
			if sorted.Spilled() != (memory != 0) || sorted.Len() != 5_000 {
				t.Errorf("spilled %v, length %d", sorted.Spilled(), sorted.Len())
			}
			if got := drain(t, sorted); !slices.Equal(got, sortStably(records)) {
				t.Error("the records are not in the order of time, or not stable")
			}
		})
	}
}

func TestSortIsStableForAnyRecords(t *testing.T) {
	key, err := keys.Parser{}.Key("ip:192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var records []accesslog.Record
		for i, at := range rapid.SliceOfN(rapid.Int64Range(0, 20), 0, 100).Draw(t, "times") {
			records = append(records, accesslog.Record{Time: at, Key: key, Cost: i + 1})
		}
		memory := rapid.SampledFrom([]int64{0, 1}).Draw(t, "memory")
		sorted, err := accesslog.Sort(context.Background(), accesslog.Slice(records), accesslog.SortOptions{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		defer sorted.Close()
		outOfOrder := int64(0)
		for i := range records {
			if i > 0 && records[i].Time < records[i-1].Time {
				outOfOrder++
			}
		}
		if sorted.OutOfOrder() != outOfOrder {
			t.Fatalf("%d are out of order, want %d", sorted.OutOfOrder(), outOfOrder)
		}
		for i, want := range sortStably(records) {
			if got, err := sorted.Next(); err != nil || got != want {
				t.Fatalf("record %d is %v, %v; want %v", i, got, err, want)
			}
		}
		if _, err := sorted.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last record: got %v, want io.EOF", err)
		}
	})
}

func TestSortedCloseLeavesNoTemporaryFile(t *testing.T) {
	folder := t.TempDir()
	sorted, err := accesslog.Sort(context.Background(), accesslog.Slice(shuffled(t, 100, 100)), accesslog.SortOptions{Memory: 1, Dir: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := sorted.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sorted.Close(); err != nil {
		t.Errorf("Close again: got %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the folder still has %v, %v", left, err)
	}
	if _, err := sorted.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next of a closed Sorted: got %v, want io.EOF", err)
	}
}

// broken is a source that fails after some records.
type broken struct{ accesslog.Source }

var errBroken = errors.New("broken")

func (b broken) Next() (accesslog.Record, error) {
	record, err := b.Source.Next()
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return record, err
}

func TestSortLeavesNoFileIfTheSourceFails(t *testing.T) {
	folder := t.TempDir()
	_, err := accesslog.Sort(context.Background(), broken{accesslog.Slice(shuffled(t, 100, 100))}, accesslog.SortOptions{Memory: 1, Dir: folder})
	if !errors.Is(err, errBroken) {
		t.Errorf("the error is %v, want %v", err, errBroken)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the folder still has %v, %v", left, err)
	}
}

func TestSortFailsIfTheFolderIsMissing(t *testing.T) {
	_, err := accesslog.Sort(context.Background(), accesslog.Slice(shuffled(t, 100, 100)), accesslog.SortOptions{Memory: 1, Dir: t.TempDir() + "/none"})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v, want one of a missing folder", err)
	}
}

func TestSortEndsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := accesslog.Sort(ctx, accesslog.Slice(nil), accesslog.SortOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want context.Canceled", err)
	}
}

// repeated yields records that go back and forth in time.
type repeated struct {
	record accesslog.Record
	left   int64
}

func (r *repeated) Next() (accesslog.Record, error) {
	if r.left == 0 {
		return accesslog.Record{}, io.EOF
	}
	r.left--
	r.record.Time = r.left * 7919 % 1_000_003
	return r.record, nil
}

func TestSortMemoryIsBounded(t *testing.T) {
	key, err := keys.Parser{}.Key("ip:2001:db8::1")
	if err != nil {
		t.Fatal(err)
	}
	live := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := live()
	const records = 300_000 // 18 MiB if all were in memory
	source := &repeated{accesslog.Record{Key: key, Cost: 1}, records}
	sorted, err := accesslog.Sort(context.Background(), source, accesslog.SortOptions{Memory: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer sorted.Close()
	for range records / 2 {
		if _, err := sorted.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if held := live(); held > before+4<<20 {
		t.Errorf("a sort of %d records in 256 KiB of memory uses %d bytes", records, held-before)
	}
	runtime.KeepAlive(sorted)
}

// longPaths yields requests that each have a long path of their own.
type longPaths struct {
	record accesslog.Record
	left   int
	look   func() // is called from time to time
}

func (l *longPaths) Next() (accesslog.Record, error) {
	if l.left == 0 {
		return accesslog.Record{}, io.EOF
	}
	if l.left--; l.left%3000 == 0 {
		l.look()
	}
	l.record.Time = int64(l.left) * 7919 % 10_007
	l.record.Path = fmt.Sprintf("/%08d%s", l.left, strings.Repeat("x", 8000))
	return l.record, nil
}

// Clients choose how long their paths are, and how many there are.
func TestSortMemoryIsBoundedForLongTexts(t *testing.T) {
	key, err := keys.Parser{}.Key("ip:192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	var before, most uint64
	look := func() {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		most = max(most, stats.HeapAlloc)
	}
	look()
	before = most
	const records = 12_000 // 96 MB if all were in memory
	sorted, err := accesslog.Sort(context.Background(), &longPaths{accesslog.Record{Key: key, Cost: 1}, records, look}, accesslog.SortOptions{Memory: 1 << 20, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer sorted.Close()
	for i := range records {
		record, err := sorted.Next()
		if err != nil || len(record.Path) != 8009 {
			t.Fatalf("record %d has a path of %d bytes: %v", i, len(record.Path), err)
		}
		if i%3000 == 0 {
			look()
		}
	}
	if held := most - before; held > 16<<20 {
		t.Errorf("a sort of 96 MB in 1 MiB of memory uses %d bytes", held)
	}
}
