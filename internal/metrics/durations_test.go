package metrics

import (
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

func exemplarsOf(t *testing.T, d durations) string {
	t.Helper()
	var read dto.Metric
	if err := d.WithLabelValues().(interface{ Write(*dto.Metric) error }).Write(&read); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, b := range read.Histogram.Bucket {
		for _, label := range b.GetExemplar().GetLabel() {
			found = append(found, label.GetValue())
		}
	}
	return strings.Join(found, " ")
}

func TestDurationsKeepAnExemplarPerBucket(t *testing.T) {
	all, start := newDurations("durations", ""), time.Unix(1_700_000_000, 0)
	one := all.with()
	ids := func(n string) IDs { return IDs{Request: []byte("request-" + n)} }
	one.observeRequest(20*time.Microsecond, start, ids("first"))
	one.observeRequest(21*time.Microsecond, start.Add(time.Second), ids("second"))
	one.observeRequest(22*time.Microsecond, start.Add(1001*time.Millisecond), ids("third"))
	one.observeRequest(time.Minute, start, ids("slow"))
	one.observeRequest(time.Millisecond, start, IDs{})
	if got := exemplarsOf(t, all); got != "request-third request-slow" {
		t.Errorf("got the exemplars %s", got)
	}
}

// Prometheus takes no exemplar of more than 128 characters or that is no UTF-8.
func TestAnIDThatIsNoLabelIsLeftOut(t *testing.T) {
	all, start := newDurations("durations", ""), time.Unix(1_700_000_000, 0)
	trace := strings.Repeat("0", 31) + "1"
	one := all.with()
	one.observeRequest(20*time.Microsecond, start, IDs{Request: []byte(strings.Repeat("x", 500)), Trace: trace})
	one.observeRequest(time.Minute, start, IDs{Request: []byte("\xff"), Trace: trace})
	if got := exemplarsOf(t, all); got != trace+" "+trace {
		t.Errorf("got the exemplars %s", got)
	}
}

func TestHistogramThatCountedNothingIsNotScraped(t *testing.T) {
	all := newDurations("durations", "", "result")
	all.with("ok").observe(time.Second)
	all.with("error")
	counted, total := all.counted()
	if len(counted) != 2 || total != 1 { // the zero bucket is one of them
		t.Errorf("got %v, %d in all", counted, total)
	}
}

func BenchmarkObserve(b *testing.B) {
	one, at := newDurations("durations", "").with(), time.Now()
	ids := IDs{Request: []byte("CPVSDPPXGHVXO2PBWZB4HZFY6Q")}
	for name, observe := range map[string]func(time.Duration){
		"plain":        one.observe,
		"with request": func(took time.Duration) { one.observeRequest(took, at, ids) },
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
