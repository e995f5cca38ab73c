package nodes

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxLatency is the longest duration that a LatencyMeter distinguishes; a longer one
// counts as this one.
const maxLatency = time.Hour

// LatencyMeter measures the answers between two heartbeats. Create it with
// NewLatencyMeter. It is safe for concurrent use.
type LatencyMeter struct {
	mu        sync.Mutex
	durations *hdrhistogram.Histogram // microseconds, within 1 %
}

// NewLatencyMeter returns a meter without answers.
func NewLatencyMeter() *LatencyMeter {
	return &LatencyMeter{durations: hdrhistogram.New(1, maxLatency.Microseconds(), 2)}
}

// Record counts one answer.
func (m *LatencyMeter) Record(took time.Duration) {
	us := min(max(took, 0), maxLatency).Microseconds()
	m.mu.Lock()
	_ = m.durations.RecordValue(us) // a duration within the bounds is always recorded
	m.mu.Unlock()
}

// Reset returns the number of answers since the last Reset and the 99th percentile of
// their durations, 0 without any. It starts from zero.
func (m *LatencyMeter) Reset() (answers int64, p99 time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers = m.durations.TotalCount()
	p99 = time.Duration(m.durations.ValueAtQuantile(99)) * time.Microsecond
	m.durations.Reset()
	return answers, p99
}
