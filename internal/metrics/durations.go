package metrics

import (
	"maps"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stint-dev/stint/internal/supervise"
)

// durations are histograms of durations under one name, which are scraped both with the classic
// bounds and as native histograms.
type durations struct{ *prometheus.HistogramVec }

// classic are the bounds that a scraper without native histograms gets, in seconds.
var classic = [...]float64{5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, .01, .025, .05, .1, .25, 1, 10}

const (
	// perTwo is the number of native buckets of each power of 2: each is 9 % wider than the one
	// before.
	perTwo = 8
	// shortest is the upper bound of the zero bucket of native histograms, about a microsecond.
	shortest = 1. / (1 << 20)
)

// newDurations returns histograms by labels.
func newDurations(name, help string, labels ...string) durations {
	return durations{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: classic[:],
		NativeHistogramBucketFactor: math.Exp2(1. / perTwo), NativeHistogramZeroThreshold: shortest,
	}, labels)}
}

// duration is one histogram. It is made by the first observation: one that counted nothing is not
// scraped.
type duration struct {
	observer func() prometheus.Observer
	// kept is when an exemplar of each classic bucket and of those above was kept, in nanoseconds.
	kept [len(classic) + 1]atomic.Int64
}

// with returns the histogram of label values. Callers keep it, so that an observation builds no
// label.
func (d durations) with(values ...string) *duration {
	return &duration{observer: sync.OnceValue(func() prometheus.Observer { return d.WithLabelValues(values...) })}
}

// observe counts one duration.
func (d *duration) observe(took time.Duration) { d.observer().Observe(max(took, 0).Seconds()) }

// IDs find one request in the log and in traces.
type IDs struct {
	Request []byte // copied where it is kept
	Trace   string
}

// exemplarAge is how long an exemplar is kept at least: they cost more than counting.
const exemplarAge = time.Second

// observeRequest counts the duration of a request that ended at an instant, and keeps it
// as an exemplar where there is no recent one of its bucket.
func (d *duration) observeRequest(took time.Duration, at time.Time, ids IDs) {
	seconds := max(took, 0).Seconds()
	kept := &d.kept[sort.SearchFloat64s(classic[:], seconds)]
	last, now := kept.Load(), at.UnixNano()
	if len(ids.Request) == 0 && ids.Trace == "" || last != 0 && now-last <= int64(exemplarAge) || !kept.CompareAndSwap(last, now) {
		d.observe(took)
		return
	}
	d.observer().(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, ids.labels()) // every histogram is one
}

// labels returns the labels of an exemplar, without an id that Prometheus does not take.
func (i IDs) labels() prometheus.Labels {
	labels := prometheus.Labels{}
	for name, id := range map[string]string{"request_id": string(i.Request), "trace_id": i.Trace} {
		if id != "" && utf8.ValidString(id) && len(name)+len(id) <= prometheus.ExemplarMaxRunes/2 {
			labels[name] = id
		}
	}
	return labels
}

// counts are what histograms have counted, by the number of the native bucket.
type counts map[int32]int64

// zeroBucket is the number of the zero bucket, lower than all others.
const zeroBucket = math.MinInt32

// counted adds up what all histograms have counted so far.
func (d durations) counted() (all counts, total int64) {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		supervise.Do("metrics", func() { d.Collect(metrics) })
	}()
	all = counts{}
	for m := range metrics {
		var read dto.Metric
		if m.Write(&read) != nil {
			continue // a histogram can always be read
		}
		h := read.GetHistogram()
		total += int64(h.GetSampleCount())
		all.add(h)
	}
	return all, total
}

// add adds the native buckets of a histogram, which are spans of neighbours, each but the first
// with its difference to the one before.
func (c counts) add(h *dto.Histogram) {
	c[zeroBucket] += int64(h.GetZeroCount())
	var bucket int32
	var count int64
	deltas := h.GetPositiveDelta()
	for _, span := range h.GetPositiveSpan() {
		bucket += span.GetOffset()
		for range span.GetLength() {
			count += deltas[0]
			c[bucket] += count
			deltas = deltas[1:]
			bucket++
		}
	}
}

// quantile returns the duration that a part of the counted ones did not exceed, 0 without
// any: the nearest rank, somewhere within its bucket, which is at most 9 % wide.
func (c counts) quantile(total int64, part float64) time.Duration {
	rank := max(1, int64(math.Round(float64(total)*part)))
	for _, bucket := range slices.Sorted(maps.Keys(c)) {
		count := c[bucket]
		if rank -= count; rank > 0 || count == 0 {
			continue
		}
		lower, upper := 0.0, shortest
		if bucket != zeroBucket {
			lower, upper = math.Exp2(float64(bucket-1)/perTwo), math.Exp2(float64(bucket)/perTwo)
		}
		within := 1 + float64(rank)/float64(count) // the part of the bucket up to the rank
		return time.Duration((lower + (upper-lower)*within) * float64(time.Second))
	}
	return 0
}
