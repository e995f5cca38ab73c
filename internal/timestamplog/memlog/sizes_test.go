package memlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

// A log that grows is replaced by a larger one, and one that is mostly empty by a smaller one,
// next to others in the same shards. Every key of any length must keep its entries, and at the
// end all accounted memory must be accounted as free.
func TestLogsOfEverySizeKeepTheirKeysAndEntries(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now, MaxBytes: 1 << 30})
	p := policyOf(t, 1, "700/h")
	want := map[string][]int64{} // newest first
	for length := 1; length <= 512; length += 1 + length/8 {
		want[strings.Repeat("k", length)] = nil
		want[fmt.Sprintf("%0*d", length, 7)] = nil
	}
	check := func() {
		t.Helper()
		for key, times := range want {
			got, _, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, key), 1000)
			if err != nil || !slices.Equal(got, times) {
				t.Fatalf("the log of a key of %d bytes has %d times, want %d", len(key), len(got), len(times))
			}
		}
		if log.Len() != len(want) {
			t.Fatalf("there are %d logs, want %d", log.Len(), len(want))
		}
	}
	asked := 0
	for round := range 150 {
		for key := range want {
			clock.Advance(time.Millisecond)
			cost := 1 + (round+len(key))%9
			r := ask(t, log, p, key, cost)
			if asked++; r.Allowed {
				want[key] = slices.Insert(want[key], 0, slices.Repeat([]int64{r.Now}, cost)...)
			}
		}
		if round%10 == 0 {
			check()
		}
	}
	check()
	longest := 0
	for _, times := range want {
		longest = max(longest, len(times))
	}
	if longest < 600 {
		t.Fatalf("the longest log has %d entries", longest)
	}
	used := log.Memory().Used
	// All but the last entries of each log leave the window.
	clock.Advance(time.Hour - time.Second)
	for key := range want {
		if r := ask(t, log, p, key, 1); r.Allowed {
			want[key] = slices.Insert(want[key], 0, r.Now)
		}
	}
	clock.Advance(time.Minute) // so that the wheel pops all logs
	for key, times := range want {
		now := clock.NowMS()
		want[key] = slices.DeleteFunc(times, func(at int64) bool { return at+time.Hour.Milliseconds() <= now })
	}
	log.Sweep()
	check()
	if now := log.Memory().Used; 4*now > used {
		t.Errorf("logs that are mostly empty take %d bytes, and took %d when they were full", now, used)
	}
	clock.Advance(time.Hour)
	log.Sweep()
	if log.Len() != 0 || log.Memory().Used != 0 {
		t.Errorf("%d logs that take %d bytes are left", log.Len(), log.Memory().Used)
	}
}

// The memory stored separately from a log is accounted whatever the length of its key, and no
// longer once the log is gone. Otherwise a caller with long keys could exceed the bound, or fill
// it with bytes that no log takes.
func TestMemoryBesideALogIsCountedForEveryKeyLength(t *testing.T) {
	counter, distinct := policyOf(t, 1, "20/m"), policyOf(t, 2, "20/m distinct path")
	counter.Algorithm = algorithms.SlidingBuckets
	for name, p := range map[string]*rules.Policy{"a counter": counter, "a distinct log": distinct} {
		t.Run(name, func(t *testing.T) {
			log := memlog.New(memlog.Options{MaxBytes: 1 << 30})
			others := map[int]int64{}
			for _, length := range []int{8, 200, 384, 385, 512} {
				q := timestamplog.RequestOf(p, strings.Repeat("k", length), 1)
				for value := range uint64(10) {
					q.Value = value + 1
					results := make([]timestamplog.Result, 1)
					log.Decide(t.Context(), []timestamplog.Request{q}, results)
					if !results[0].Allowed {
						t.Fatalf("got %+v", results[0])
					}
				}
				counted, kept := log.Accounted()
				if counted != kept {
					t.Errorf("a key of %d bytes: %d bytes are taken, %d accounted for", length, counted, kept)
				}
				others[length] = kept - int64(length)
				if others[length]+16 < others[8] { // a short log has memory for entries that no entry uses
					t.Errorf("with a key of %d bytes %d other bytes are accounted for, with one of 8 bytes %d", length, others[length], others[8])
				}
				if _, err := log.Reset(t.Context(), q.LogID); err != nil {
					t.Fatal(err)
				}
				if used := log.Memory().Used; used != 0 {
					t.Errorf("after the Reset of a key of %d bytes %d bytes are accounted for, want 0", length, used)
				}
			}
		})
	}
}
