package replay

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxLatency is the longest duration that a histogram distinguishes; a longer one counts
// as this one.
const maxLatency = time.Hour

// histogram counts durations, in microseconds and within 1 %.
type histogram struct {
	durations *hdrhistogram.Histogram
	max       time.Duration // exact
}

func newHistogram() histogram {
	return histogram{durations: hdrhistogram.New(1, maxLatency.Microseconds(), 2)}
}

func (h *histogram) add(d time.Duration) {
	// A duration within the bounds is always recorded.
	_ = h.durations.RecordValue(min(max(d, 0), maxLatency).Microseconds())
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	h.durations.Merge(other.durations)
	h.max = max(h.max, other.max)
}

// quantile returns the duration at the nearest rank of the quantile q, from 0 to 1.
func (h *histogram) quantile(q float64) time.Duration {
	return min(time.Duration(h.durations.ValueAtQuantile(100*q))*time.Microsecond, h.max)
}

func (h *histogram) summary() Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latency{
		P50MS: ms(h.quantile(0.5)), P90MS: ms(h.quantile(0.9)), P99MS: ms(h.quantile(0.99)),
		P999MS: ms(h.quantile(0.999)), MaxMS: ms(h.max),
	}
}
