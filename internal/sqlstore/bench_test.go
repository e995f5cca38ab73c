package sqlstore_test

import (
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// onBothOnce runs a benchmark on a database of each kind.
func onBothOnce(b *testing.B, bench func(b *testing.B, f *storetest.Fixture)) {
	b.Run("sqlite", func(b *testing.B) { bench(b, storetest.Open(b, filepath.Join(b.TempDir(), "stint.db"))) })
	b.Run("postgres", func(b *testing.B) { bench(b, storetest.Open(b, servers.Postgres(b).URL)) })
}

// BenchmarkImportBlocks imports b.N rows; run it with -benchtime=100000x.
func BenchmarkImportBlocks(b *testing.B) {
	onBothOnce(b, func(b *testing.B, f *storetest.Fixture) {
		b.ResetTimer()
		if _, err := f.Entries.Import(b.Context(), storetest.Operator, storetest.Blocks(b, b.N), blocks.Keep, nil); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkCatalogLoad loads b.N blocks into a catalog; run it with
// -benchtime=1000000x.
func BenchmarkCatalogLoad(b *testing.B) {
	onBothOnce(b, func(b *testing.B, f *storetest.Fixture) {
		if _, err := f.Entries.Import(b.Context(), storetest.Operator, storetest.Blocks(b, b.N), blocks.Keep, nil); err != nil {
			b.Fatal(err)
		}
		c := catalog.New(f, time.Now)
		runtime.GC() // a node that starts has no import behind it
		spent := processorTime(b)
		b.ResetTimer()
		if err := c.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		// Other work on the machine disturbs this less than the time.
		b.ReportMetric(float64(processorTime(b)-spent)/float64(b.N), "cpu-ns/op")
		if n := c.Blocks().Size(blocks.Block); n != b.N {
			b.Fatalf("loaded %d blocks of %d", n, b.N)
		}
	})
}

// processorTime returns what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkAddBlock is one change of one caller.
func BenchmarkAddBlock(b *testing.B) {
	onBothOnce(b, func(b *testing.B, f *storetest.Fixture) {
		b.ResetTimer()
		for row := range storetest.Blocks(b, b.N) {
			if _, err := f.Entries.Add(b.Context(), storetest.Operator, blocks.Fail, row); err != nil {
				b.Fatal(err)
			}
		}
	})
}
