package machine

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// smallHeap is the heap, in bytes, below which garbage is not worth collecting.
const smallHeap = 64 << 20

// usualPercent is the collector's own setting: it runs when the heap has doubled.
const usualPercent = 100

// PaceCollector has the garbage collector wait until the heap has smallHeap bytes of
// garbage. A node with few keys keeps some 10 MB, and would collect after every 10 MB that
// calls over gRPC and batches allocate: a quarter of their processor time, see
// BenchmarkCollector. Where the heap is larger the collector runs as usual. The limit of
// debug.SetMemoryLimit holds in any case.
func PaceCollector() {
	pacing.Lock()
	pacing.is = true
	pacing.Unlock()
	pace(new(pacer))
}

// pacing is what the collector's pace depends on beside the heap.
var pacing struct {
	sync.Mutex
	is     bool   // PaceCollector was called
	growth uint64 // in bytes; see ExpectGrowth
}

// ExpectGrowth has the collector wait until the heap has grown by so many bytes, for a load
// that keeps about as many: to collect whenever a growing heap has doubled finds next to no
// garbage. The function returned ends that. It has no effect without PaceCollector.
// Benchmark: BenchmarkCatalogLoad.
func ExpectGrowth(bytes uint64) (end func()) {
	grow := func(by uint64) {
		pacing.Lock()
		defer pacing.Unlock()
		pacing.growth += by
		applyPace()
	}
	grow(bytes)
	return sync.OnceFunc(func() { grow(-bytes) })
}

// pacer is garbage from the start, so that its cleanup runs after every collection.
type pacer struct{ _ [16]byte }

func pace(p *pacer) {
	pacing.Lock()
	defer pacing.Unlock()
	applyPace()
	runtime.AddCleanup(p, func(struct{}) { pace(new(pacer)) }, struct{}{})
}

// applyPace sets the collector's pace, under the lock of pacing.
func applyPace() {
	if !pacing.is {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64(), pacing.growth))
}

// percentFor returns by how much a heap with so many live bytes that is expected to grow by
// others grows before the next collection, in percent.
func percentFor(live, growth uint64) int {
	return max(usualPercent, int(100*max(smallHeap, growth)/max(live, 1<<20))) //nolint:gosec // at most some millions
}
