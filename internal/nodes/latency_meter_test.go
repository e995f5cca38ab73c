package nodes

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTheMeterReportsTheDurationThatNinetyNinePercentDidNotExceed(t *testing.T) {
	m := NewLatencyMeter()
	for range 99 {
		m.Record(time.Millisecond)
	}
	m.Record(time.Second)
	answers, p99 := m.Reset()
	if answers != 100 || p99 < time.Millisecond || p99 > 1020*time.Microsecond {
		t.Errorf("%d answers, 99 %% within %s", answers, p99)
	}
	if answers, p99 := m.Reset(); answers != 0 || p99 != 0 {
		t.Errorf("after a reset: %d answers, %s", answers, p99)
	}
}

func TestTheMeterIsWithinOnePercentOfTheSortedDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewLatencyMeter()
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Minute/time.Microsecond)), 1, 300).Draw(t, "us")
		for _, us := range all {
			m.Record(time.Duration(us) * time.Microsecond)
		}
		answers, p99 := m.Reset()
		slices.Sort(all)
		rank := max(1, (len(all)*99+50)/100) // the nearest
		want := time.Duration(all[rank-1]) * time.Microsecond
		if answers != int64(len(all)) || p99 < want || float64(p99-want) > 0.01*float64(want) {
			t.Fatalf("%d answers, 99 %% within %s, want %d, %s", answers, p99, len(all), want)
		}
	})
}

func TestTheMeterCountsConcurrentAnswersOnceEach(t *testing.T) {
	m := NewLatencyMeter()
	var counted int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 5000 {
				m.Record(time.Hour * 100) // longer than the meter distinguishes
			}
		})
	}
	for range 100 {
		n, _ := m.Reset()
		counted += n
	}
	callers.Wait()
	n, _ := m.Reset()
	if counted += n; counted != 20_000 {
		t.Errorf("%d answers were counted, want 20000", counted)
	}
}

func BenchmarkLatencyMeter(b *testing.B) {
	m := NewLatencyMeter()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m.Record(137 * time.Microsecond)
		}
	})
}
