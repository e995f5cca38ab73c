package nodes

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Pulse measures requests between two beats, with two atomic additions each.
// The zero value is ready for use.
type Pulse struct {
	// buckets count answers by the time they took: four to each doubling of a
	// microsecond, so that a quantile is told to within a quarter.
	buckets [bucketCount]atomic.Int64
}

const (
	perDoubling = 4
	bucketCount = 30 * perDoubling // up to some minutes
)

// Add notes one answer.
func (p *Pulse) Add(took time.Duration) { p.buckets[bucketOf(took)].Add(1) }

func bucketOf(took time.Duration) int {
	us := uint64(max(1, took.Microseconds()))
	doubling := bits.Len64(us) - 1
	within := 0
	if doubling >= 2 {
		within = int(us>>(doubling-2)) & (perDoubling - 1)
	} else {
		within = int(us<<(2-doubling)) & (perDoubling - 1)
	}
	return min(doubling*perDoubling+within, bucketCount-1)
}

// upperEdge returns what everything in a bucket was faster than.
func upperEdge(bucket int) time.Duration {
	doubling, within := bucket/perDoubling, bucket%perDoubling
	return time.Duration(float64(uint64(1)<<doubling) * (1 + float64(within+1)/perDoubling) * float64(time.Microsecond))
}

// Take returns how many answers there were since the last Take and what 99 in
// 100 of them were faster than, and begins afresh.
func (p *Pulse) Take() (answers int64, slow time.Duration) {
	var counts [bucketCount]int64
	for i := range p.buckets {
		counts[i] = p.buckets[i].Swap(0)
		answers += counts[i]
	}
	left := answers - answers/100
	for i, n := range counts {
		if left -= n; answers > 0 && left <= 0 {
			return answers, upperEdge(i)
		}
	}
	return answers, 0
}
