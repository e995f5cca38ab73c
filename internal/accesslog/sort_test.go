package accesslog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

func TestSortIsStable(t *testing.T) {
	records := shuffled(t, 5_000, 400)
	sorted := accesslog.Sort(context.Background(), accesslog.Slice(records), accesslog.SortOptions{})
	if got := drain(t, sorted); !slices.Equal(got, sortStably(records)) || sorted.LeftOut() != 0 || len(sorted.Warnings()) != 0 {
		t.Errorf("the records are not in the order of time, or not stable; %d were left out", sorted.LeftOut())
	}
}

// Whatever the memory, the result is in order, and what does not fit is counted.
func TestSortCountsWhatDoesNotFit(t *testing.T) {
	key, err := keys.Parser{}.Key("ip:192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var records []accesslog.Record
		for i, at := range rapid.SliceOfN(rapid.Int64Range(0, 20), 0, 100).Draw(t, "times") {
			records = append(records, accesslog.Record{Time: at, Key: key, Cost: i + 1})
		}
		memory := rapid.SampledFrom([]int64{0, 1, 1000, 3000}).Draw(t, "memory")
		sorted := accesslog.Sort(context.Background(), accesslog.Slice(records), accesslog.SortOptions{Memory: memory})
		outOfOrder := int64(0)
		for i := range records {
			if i > 0 && records[i].Time < records[i-1].Time {
				outOfOrder++
			}
		}
		var got []accesslog.Record
		for {
			r, err := sorted.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if sorted.OutOfOrder() != outOfOrder || int64(len(got))+sorted.LeftOut() != int64(len(records)) {
			t.Fatalf("%d are out of order, want %d; %d records and %d left out of %d", sorted.OutOfOrder(), outOfOrder, len(got), sorted.LeftOut(), len(records))
		}
		if (sorted.LeftOut() > 0) != (len(sorted.Warnings()) > 0) {
			t.Fatalf("%d were left out, the warnings are %q", sorted.LeftOut(), sorted.Warnings())
		}
		if want := sortStably(got); !slices.Equal(got, want) || memory == 0 && !slices.Equal(got, sortStably(records)) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
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

func TestSortReturnsTheErrorOfItsSource(t *testing.T) {
	sorted := accesslog.Sort(context.Background(), broken{accesslog.Slice(shuffled(t, 100, 100))}, accesslog.SortOptions{})
	if _, err := sorted.Next(); !errors.Is(err, errBroken) {
		t.Errorf("the error is %v, want %v", err, errBroken)
	}
}

func TestSortEndsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := accesslog.Sort(ctx, accesslog.Slice(nil), accesslog.SortOptions{}).Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want context.Canceled", err)
	}
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
	l.record.Time++ // in order, so that all fit
	l.record.Path = fmt.Sprintf("/%08d%s", l.left, strings.Repeat("x", 8000))
	return l.record, nil
}

// Clients choose how long their paths are, and how many there are.
func TestSortMemoryIsBounded(t *testing.T) {
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
	sorted := accesslog.Sort(context.Background(), &longPaths{accesslog.Record{Key: key, Cost: 1}, records, look}, accesslog.SortOptions{Memory: 1 << 20})
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
