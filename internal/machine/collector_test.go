package machine

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestSmallHeapGrowsFurtherBeforeACollection(t *testing.T) {
	for live, want := range map[uint64]int{0: 6400, 1 << 20: 6400, 16 << 20: 400, 64 << 20: 100, 10 << 30: 100} {
		if got := percentFor(live, 0); got != want {
			t.Errorf("percentFor(%d, 0) = %d, want %d", live, got, want)
		}
	}
}

func TestCollectionWaitsForTheExpectedGrowthOfTheHeap(t *testing.T) {
	for _, c := range []struct {
		live, growth uint64
		want         int
	}{{10 << 20, 500 << 20, 5000}, {10 << 20, 1 << 20, 640}, {1 << 30, 1 << 20, 100}, {0, 1 << 40, 104857600}} {
		if got := percentFor(c.live, c.growth); got != c.want {
			t.Errorf("percentFor(%d, %d) = %d, want %d", c.live, c.growth, got, c.want)
		}
	}
}

var kept []byte

func TestCollectorIsPacedAfterEveryCollection(t *testing.T) {
	before := debug.SetGCPercent(usualPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	PaceCollector()
	kept = make([]byte, 2*smallHeap)
	t.Cleanup(func() { kept = nil })
	await := func(what string, is func(percent int) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			runtime.GC()
			percent := debug.SetGCPercent(usualPercent)
			debug.SetGCPercent(percent)
			if is(percent) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the GC percent stays at %d", what, percent)
			}
		}
	}
	await("with a large heap", func(percent int) bool { return percent == usualPercent })
	kept = nil
	await("with a small heap", func(percent int) bool { return percent > usualPercent })

	const maxPercent = 100 * smallHeap >> 20 // without growth
	end := ExpectGrowth(1 << 40)
	await("with an expected growth", func(percent int) bool { return percent > maxPercent })
	end()
	end()
	await("after the growth has ended", func(percent int) bool { return percent <= maxPercent })
}

// BenchmarkCollector allocates as calls do, on a heap that keeps 10 MB.
func BenchmarkCollector(b *testing.B) {
	kept = make([]byte, 0)
	b.Cleanup(func() { kept = nil })
	live := make([]*[64]*byte, 0, 20_000)
	for range cap(live) {
		live = append(live, new([64]*byte))
	}
	for _, mode := range []string{"usual", "paced"} {
		b.Run(mode, func(b *testing.B) {
			before := debug.SetGCPercent(usualPercent)
			defer debug.SetGCPercent(before)
			if mode == "paced" {
				debug.SetGCPercent(percentFor(10<<20, 0))
			}
			b.ReportAllocs()
			for b.Loop() {
				call := make([]*byte, 128) // some kilobytes a call
				for i := range call {
					call[i] = new(byte)
				}
				live[0][0] = call[0]
			}
		})
	}
	runtime.KeepAlive(live)
}
