package machine

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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
func PaceCollector() { pace(new(pacer)) }

// pacer is garbage from the start, so that its cleanup runs after every collection.
type pacer struct{ _ [16]byte }

func pace(p *pacer) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64()))
	runtime.AddCleanup(p, func(struct{}) { pace(new(pacer)) }, struct{}{})
}

// percentFor returns by how much a heap with so many live bytes grows before the next
// collection, in percent.
func percentFor(live uint64) int {
	return max(usualPercent, int(100*smallHeap/max(live, 1<<20))) //nolint:gosec // at most 6,400
}
