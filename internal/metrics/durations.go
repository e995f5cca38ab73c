package metrics

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Fast path. Plain version: prometheus.NewHistogram with the same bounds and
// NativeHistogramBucketFactor 1.1, in durations_test.go. Benchmark: BenchmarkObserve,
// 2 times as many observations a second.
//
// durations are histograms of durations under one name, which are scraped both with
// the classic bounds and as native histograms. One bucket array serves both: its bounds
// are those of the native buckets and the classic ones between them, so that either is
// exact. An observation is two additions.
type durations struct {
	desc    *prometheus.Desc
	labels  []string
	created time.Time
	mu      sync.Mutex
	all     []*duration
}

// classic are the bounds that a scraper without native histograms gets, in seconds.
var classic = []float64{5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, .01, .025, .05, .1, .25, 1, 10}

const (
	// schema is that of the native histograms: each power of 2 is divided into
	// 1<<schema buckets, each 9 % wider than the one before.
	schema  = 3
	perTwo  = 1 << schema
	minExp  = -20 // of 2: what is shorter than a microsecond is in the zero bucket
	maxExp  = 7   // what is longer than two minutes is in the last bucket
	natives = (maxExp - minExp) * perTwo
)

// native returns the upper bound of the i-th native bucket, in seconds; the zero bucket
// is 0.
func native(i int) float64 {
	return math.Ldexp(math.Exp2(float64(i%perTwo)/perTwo), minExp+i/perTwo)
}

// layout describes the buckets that every duration has.
var layout = func() (l struct {
	bounds  []float64            // upper, included
	first   [natives + 1]int     // the bucket that begins a native one
	split   [natives + 1]float64 // the classic bound within it, else infinite
	classic []int                // the last bucket of each classic bound
	steps   [perTwo]float64      // the bounds within a power of 2, from 0.5
}) {
	for i := range perTwo {
		l.steps[i] = native(i) / native(0) / 2
	}
	lower := 0.0
	for i := range natives + 1 {
		l.first[i], l.split[i] = len(l.bounds), math.Inf(1)
		upper := native(i)
		for _, c := range classic {
			if c > lower && c < upper {
				l.split[i] = c
				l.bounds = append(l.bounds, c)
			}
		}
		l.bounds = append(l.bounds, upper)
		lower = upper
	}
	for _, c := range classic {
		l.classic = append(l.classic, slices.Index(l.bounds, c))
	}
	return l
}()

const buckets = natives + 1 + 17 // and one for each classic bound

// duration is one histogram.
type duration struct {
	labels []*dto.LabelPair
	sum    atomic.Int64 // nanoseconds
	counts [buckets]atomic.Uint64
	// exemplars are one request of each classic bucket and of those above.
	exemplars [18]atomic.Pointer[exemplar]
}

// exemplar is one request that took so long.
type exemplar struct {
	seconds float64
	at      time.Time
	request string
	trace   string
}

// IDs find one request in the log and in traces.
type IDs struct {
	Request []byte // copied where it is kept
	Trace   string
}

// exemplarAge is how long an exemplar is kept at least: they cost more than counting.
const exemplarAge = time.Second

// newDurations returns histograms by labels.
func newDurations(name, help string, labels ...string) *durations {
	return &durations{desc: prometheus.NewDesc(name, help, labels, nil), labels: labels, created: time.Now()}
}

// with makes the histogram of label values. Callers keep it.
func (d *durations) with(values ...string) *duration {
	one := &duration{}
	for i, name := range d.labels {
		one.labels = append(one.labels, &dto.LabelPair{Name: proto.String(name), Value: proto.String(values[i])})
	}
	slices.SortFunc(one.labels, func(a, b *dto.LabelPair) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	d.mu.Lock()
	d.all = append(d.all, one)
	d.mu.Unlock()
	return one
}

// observe counts one duration.
func (d *duration) observe(took time.Duration) { d.counts[d.add(took)].Add(1) }

// observeRequest counts the duration of a request that ended at an instant, and keeps it
// as an exemplar where there is no recent one of its bucket.
func (d *duration) observeRequest(took time.Duration, at time.Time, ids IDs) {
	bucket := d.add(took)
	d.counts[bucket].Add(1)
	if len(ids.Request) == 0 && ids.Trace == "" {
		return
	}
	slot := &d.exemplars[classicOf[bucket]]
	if kept := slot.Load(); kept == nil || at.Sub(kept.at) > exemplarAge {
		slot.CompareAndSwap(kept, &exemplar{took.Seconds(), at, string(ids.Request), ids.Trace})
	}
}

// add adds to the sum and returns the bucket.
func (d *duration) add(took time.Duration) int {
	took = max(took, 0)
	d.sum.Add(int64(took))
	return bucketOf(took.Seconds())
}

// classicOf is the classic bucket of each bucket.
var classicOf = func() (of [buckets]int) {
	c := 0
	for i := range of {
		of[i] = c
		if c < len(layout.classic) && layout.classic[c] == i {
			c++
		}
	}
	return of
}()

// bucketOf returns the bucket of a duration in seconds.
func bucketOf(seconds float64) int {
	if seconds <= layout.bounds[0] {
		return 0
	}
	fraction, exp := math.Frexp(seconds)
	step := 0
	for step < perTwo && fraction > layout.steps[step] {
		step++
	}
	i := min((exp-1-minExp)*perTwo+step, natives)
	if seconds > layout.split[i] {
		return layout.first[i] + 1
	}
	return layout.first[i]
}

// snapshot adds up what all histograms have counted so far, by bucket.
func (d *durations) snapshot() (counts [buckets]uint64, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		for i := range counts {
			counts[i] += one.counts[i].Load()
		}
	}
	for _, count := range counts {
		total += int64(count)
	}
	return counts, total
}

// quantile returns the duration that a part of the counted ones did not exceed, 0 without
// any: the nearest rank, somewhere within its bucket, which is at most 9 % wide.
func quantile(counts *[buckets]uint64, total int64, part float64) time.Duration {
	rank := max(1, int64(math.Round(float64(total)*part)))
	for i, count := range counts {
		if rank -= int64(count); rank > 0 || count == 0 {
			continue
		}
		lower, upper := 0.0, layout.bounds[i]
		if i > 0 {
			lower = layout.bounds[i-1]
		}
		within := 1 + float64(rank)/float64(count) // the part of the bucket up to the rank
		return time.Duration((lower + (upper-lower)*within) * float64(time.Second))
	}
	return 0
}

// Describe implements prometheus.Collector.
func (d *durations) Describe(to chan<- *prometheus.Desc) { to <- d.desc }

// Collect implements prometheus.Collector. Histograms that counted nothing are left out.
func (d *durations) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	all := slices.Clone(d.all)
	d.mu.Unlock()
	for _, one := range all {
		if h := one.read(); h != nil {
			h.CreatedTimestamp = timestamppb.New(d.created)
			to <- &readDuration{d.desc, one.labels, h}
		}
	}
}

// readDuration is a histogram as it was at one scrape.
type readDuration struct {
	desc      *prometheus.Desc
	labels    []*dto.LabelPair
	histogram *dto.Histogram
}

// Desc implements prometheus.Metric.
func (r *readDuration) Desc() *prometheus.Desc { return r.desc }

// Write implements prometheus.Metric.
func (r *readDuration) Write(to *dto.Metric) error {
	to.Label, to.Histogram = r.labels, r.histogram
	return nil
}

// read returns what was counted, nil for nothing.
func (d *duration) read() *dto.Histogram {
	var counts [buckets]uint64
	var total uint64
	for i := range counts {
		counts[i] = d.counts[i].Load()
		total += counts[i]
	}
	if total == 0 {
		return nil
	}
	h := &dto.Histogram{
		SampleCount: proto.Uint64(total), SampleSum: proto.Float64(time.Duration(d.sum.Load()).Seconds()),
		Schema: proto.Int32(schema), ZeroThreshold: proto.Float64(layout.bounds[0]), ZeroCount: proto.Uint64(counts[0]),
	}
	below, next := uint64(0), 0
	for i, c := range layout.classic {
		for ; next <= c; next++ {
			below += counts[next]
		}
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(classic[i]), CumulativeCount: proto.Uint64(below), Exemplar: d.exemplars[i].Load().write()})
	}
	last := len(classic)
	if e := d.exemplars[last].Load(); e != nil {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(math.Inf(1)), CumulativeCount: proto.Uint64(total), Exemplar: e.write()})
	}
	for i := range d.exemplars {
		if e := d.exemplars[i].Load(); e != nil {
			h.Exemplars = append(h.Exemplars, e.write())
		}
	}
	writeNative(h, &counts)
	return h
}

// writeNative adds the native buckets as spans of neighbours, each but the first with
// its difference to the one before.
func writeNative(h *dto.Histogram, counts *[buckets]uint64) {
	before, end := int64(0), 0 // after the span
	for i := 1; i <= natives; i++ {
		count := int64(counts[layout.first[i]])
		if !math.IsInf(layout.split[i], 1) {
			count += int64(counts[layout.first[i]+1])
		}
		if count == 0 {
			continue
		}
		index := i + minExp*perTwo
		switch {
		case len(h.PositiveSpan) == 0:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(int32(index)), Length: proto.Uint32(1)})
		case index == end:
			span := h.PositiveSpan[len(h.PositiveSpan)-1]
			span.Length = proto.Uint32(span.GetLength() + 1)
		default:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(int32(index - end)), Length: proto.Uint32(1)})
		}
		h.PositiveDelta = append(h.PositiveDelta, count-before)
		before, end = count, index+1
	}
	if len(h.PositiveSpan) == 0 { // a span without buckets says that the histogram is native
		h.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}
	}
}

// write returns e as it is scraped, nil for nil.
func (e *exemplar) write() *dto.Exemplar {
	if e == nil {
		return nil
	}
	out := &dto.Exemplar{Value: proto.Float64(e.seconds), Timestamp: timestamppb.New(e.at)}
	for _, id := range [...]struct{ name, value string }{{"request_id", e.request}, {"trace_id", e.trace}} {
		if id.value != "" {
			out.Label = append(out.Label, &dto.LabelPair{Name: proto.String(id.name), Value: proto.String(id.value)})
		}
	}
	return out
}
