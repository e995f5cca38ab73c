package metrics

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/gate"
)

func answered(m *Metrics, took time.Duration) {
	m.Check(&CheckAnswer{Door: "check", Outcome: gate.Allowed, Took: took})
}

func TestCheckReaderReturnsThe99thPercentile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(buildinfo.Info{}, "test", Gauges{})
		answered(m, time.Hour) // before the reader
		r := m.CheckReader()
		all := rapid.SliceOfN(rapid.Int64Range(1000, int64(time.Minute)), 1, 300).Draw(t, "ns")
		for _, ns := range all {
			answered(m, time.Duration(ns))
		}
		answers, p99 := r.Next()
		slices.Sort(all)
		want := float64(all[max(1, int(math.Round(float64(len(all))*0.99)))-1])
		if answers != int64(len(all)) || math.Abs(float64(p99)-want) > 0.1*want {
			t.Fatalf("Next: got %d answers, 99 %% within %s, want %d, %s", answers, p99, len(all), time.Duration(want))
		}
		if answers, p99 := r.Next(); answers != 0 || p99 != 0 {
			t.Fatalf("Next without new answers: got %d answers, %s", answers, p99)
		}
	})
}

func TestCheckReaderCountsConcurrentAnswersOnce(t *testing.T) {
	m := New(buildinfo.Info{}, "test", Gauges{})
	r := m.CheckReader()
	var counted int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 5000 {
				answered(m, time.Hour) // longer than the histogram distinguishes
			}
		})
	}
	for range 100 {
		n, _ := r.Next()
		counted += n
	}
	callers.Wait()
	n, _ := r.Next()
	if counted += n; counted != 20_000 || m.ChecksAnswered() != 20_000 {
		t.Errorf("%d answers were counted, want 20000", counted)
	}
}
