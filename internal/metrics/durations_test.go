package metrics

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// plainHistogram is what durations replace.
func plainHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "plain", Buckets: classic, NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: layout.bounds[0],
	})
}

func TestDurationsMatchThePrometheusHistogram(t *testing.T) {
	plain, fast := plainHistogram(), newDurations("fast", "").with()
	random := rand.New(rand.NewPCG(1, 2))
	observe := func(took time.Duration) {
		plain.Observe(took.Seconds())
		fast.observe(took)
	}
	for range 20_000 {
		observe(time.Duration(math.Exp2(random.Float64() * 36))) // 1 ns to 68 s
	}
	for _, bound := range classic {
		exact := time.Duration(math.Round(bound * 1e9))
		for _, took := range []time.Duration{exact - 1, exact, exact + 1} {
			observe(took)
		}
	}
	observe(0)
	var want dto.Metric
	if err := plain.Write(&want); err != nil {
		t.Fatal(err)
	}
	got := fast.read()
	if got.GetSampleCount() != want.Histogram.GetSampleCount() || math.Abs(got.GetSampleSum()-want.Histogram.GetSampleSum()) > 1e-3 {
		t.Errorf("got %d and %v, want %d and %v", got.GetSampleCount(), got.GetSampleSum(), want.Histogram.GetSampleCount(), want.Histogram.GetSampleSum())
	}
	for i, b := range want.Histogram.Bucket {
		if g := got.Bucket[i]; g.GetUpperBound() != b.GetUpperBound() || g.GetCumulativeCount() != b.GetCumulativeCount() {
			t.Errorf("bucket up to %v: got %d, want %d", b.GetUpperBound(), g.GetCumulativeCount(), b.GetCumulativeCount())
		}
	}
	if got.GetSchema() != want.Histogram.GetSchema() || got.GetZeroCount() != want.Histogram.GetZeroCount() {
		t.Errorf("got schema %d and zero count %d, want %d and %d", got.GetSchema(), got.GetZeroCount(), want.Histogram.GetSchema(), want.Histogram.GetZeroCount())
	}
	gotCounts, wantCounts := nativeCounts(got), nativeCounts(want.Histogram)
	for index, count := range wantCounts {
		if gotCounts[index] != count {
			t.Errorf("native bucket %d: got %d, want %d", index, gotCounts[index], count)
		}
	}
	if len(gotCounts) != len(wantCounts) {
		t.Errorf("got %d native buckets, want %d", len(gotCounts), len(wantCounts))
	}
}

// nativeCounts returns the native buckets by their index.
func nativeCounts(h *dto.Histogram) map[int32]int64 {
	counts, index, count, next := map[int32]int64{}, int32(0), int64(0), 0
	for _, span := range h.PositiveSpan {
		index += span.GetOffset()
		for range span.GetLength() {
			count += h.PositiveDelta[next]
			if count != 0 {
				counts[index] = count
			}
			next++
			index++
		}
	}
	return counts
}

func TestDurationsKeepAnExemplarPerBucket(t *testing.T) {
	one, start := newDurations("fast", "").with(), time.Unix(1_700_000_000, 0)
	ids := func(n string) IDs { return IDs{Request: []byte("request-" + n), Trace: strings.Repeat("0", 31) + "1"} }
	one.observeRequest(20*time.Microsecond, start, ids("first"))
	one.observeRequest(21*time.Microsecond, start.Add(time.Second), ids("second"))
	one.observeRequest(22*time.Microsecond, start.Add(2*time.Second), ids("third"))
	one.observeRequest(time.Minute, start, ids("slow"))
	one.observeRequest(time.Millisecond, start, IDs{})
	var found []string
	for _, b := range one.read().Bucket {
		if e := b.GetExemplar(); e != nil {
			found = append(found, e.Label[0].GetValue())
		}
	}
	if got := strings.Join(found, " "); got != "request-third request-slow" {
		t.Errorf("got the exemplars %s", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	plain, fast, at := plainHistogram(), newDurations("fast", "").with(), time.Now()
	ids := IDs{Request: []byte("CPVSDPPXGHVXO2PBWZB4HZFY6Q")}
	for name, observe := range map[string]func(time.Duration){
		"plain":        func(took time.Duration) { plain.Observe(took.Seconds()) },
		"fast":         fast.observe,
		"with request": func(took time.Duration) { fast.observeRequest(took, at, ids) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			took := time.Duration(0)
			for b.Loop() {
				if took += 97; took > time.Millisecond {
					took = 1000
				}
				observe(took)
			}
		})
	}
}
