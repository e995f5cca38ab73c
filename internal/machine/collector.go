package machine

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// smallHeap is the heap size, in bytes, below which the garbage collector need not run.
const smallHeap = 64 << 20

// usualPercent is the collector's default: it runs when the heap has doubled.
const usualPercent = 100

// PaceCollector makes the garbage collector wait until the heap has smallHeap bytes of garbage. A
// node with few keys keeps about 10 MB, so the collector would run after every 10 MB that gRPC
// calls and batches allocate. That would take a quarter of their processor time; see
// BenchmarkCollector. With a larger heap the collector runs as usual. The limit of
// debug.SetMemoryLimit always applies.
func PaceCollector() {
	pacing.Lock()
	pacing.is = true
	pacing.Unlock()
	pace(new(pacer))
}

// pacing has the inputs for the collector's pace, besides the heap.
var pacing struct {
	sync.Mutex
	is     bool   // whether PaceCollector was called
	growth uint64 // in bytes; see ExpectGrowth
}

// ExpectGrowth makes the collector wait until the heap has grown by bytes, during an operation
// that keeps about that much: a collection each time a growing heap has doubled would find hardly
// any garbage. The returned function ends that. ExpectGrowth has no effect without PaceCollector.
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

// pacer becomes garbage at once, so that its cleanup runs after every collection.
type pacer struct{ _ [16]byte }

func pace(p *pacer) {
	pacing.Lock()
	defer pacing.Unlock()
	applyPace()
	runtime.AddCleanup(p, func(struct{}) { pace(new(pacer)) }, struct{}{})
}

// applyPace sets the collector's pace. The caller must hold the lock of pacing.
func applyPace() {
	if !pacing.is {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64(), pacing.growth))
}

// percentFor returns the value for debug.SetGCPercent if live bytes of the heap are in use and
// growth more are expected.
func percentFor(live, growth uint64) int {
	return max(usualPercent, int(100*max(smallHeap, growth)/max(live, 1<<20))) //nolint:gosec // at most some millions
}
