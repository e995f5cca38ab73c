package replay

import (
	"math"
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are each about 3 % wide, so its
// memory does not grow with the number of requests. Below 64 µs a bucket is one
// microsecond; above, each power of two has 32.
type histogram struct {
	counts [64 + 32*36]int64
	total  int64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// bucketOf returns the bucket of d; those of more than about 49 days share the
// last one.
func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 64 {
		return int(us)
	}
	shift := bits.Len64(us) - 6
	bucket := 64 + 32*(shift-1) + int(us>>shift) - 32
	return min(bucket, len(histogram{}.counts)-1)
}

// upperEdge returns the shortest duration that belongs to the next bucket.
func upperEdge(bucket int) time.Duration {
	if bucket < 64 {
		return time.Duration(bucket+1) * time.Microsecond
	}
	shift := (bucket-64)/32 + 1
	return time.Duration(uint64((bucket-64)%32+32+1)<<shift) * time.Microsecond
}

// quantile returns a duration that at least the share q of all took at most.
func (h *histogram) quantile(q float64) time.Duration {
	need := int64(math.Ceil(q * float64(h.total)))
	seen := int64(0)
	for bucket, n := range h.counts {
		if seen += n; n > 0 && seen >= need {
			return min(upperEdge(bucket), h.max)
		}
	}
	return h.max
}

func (h *histogram) summary() Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latency{
		P50MS: ms(h.quantile(0.5)), P90MS: ms(h.quantile(0.9)), P99MS: ms(h.quantile(0.99)),
		P999MS: ms(h.quantile(0.999)), MaxMS: ms(h.max),
	}
}
