package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

func TestIdleLogsAreRemovedWhenTheirLastWindowEnds(t *testing.T) {
	for _, stack := range [][]string{{"5/1ms"}, {"5/s"}, {"5/8s"}, {"5/m"}, {"5/s", "50/h"}, {"5/s", "8/d"}, {"300/31d"}} {
		t.Run(fmt.Sprint(stack), func(t *testing.T) {
			clock := logtest.NewClock()
			log := memlog.New(memlog.Options{Now: clock.Now})
			p := policyOf(t, 1, stack...)
			const keys = 1000
			for i := range keys {
				ask(t, log, p, fmt.Sprint("token:", i), 1)
			}
			window := p.Rules.LongestWindow()
			for range 50 { // sweeping in between must not lose a log
				clock.Advance((window - time.Millisecond) / 50)
				log.Sweep()
			}
			if n := log.Len(); n != keys {
				t.Fatalf("before the window has ended %d of %d logs are held", n, keys)
			}
			clock.Advance(window/50 + 2*time.Second)
			log.Sweep()
			if n := log.Len(); n != 0 {
				t.Fatalf("two seconds after the window has ended %d logs are held", n)
			}
		})
	}
}

func TestLogsInUseAreKept(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "5/m")
	for range 200 {
		ask(t, log, p, "in use", 1)
		ask(t, log, p, fmt.Sprint("once at ", clock.NowMS()), 1)
		clock.Advance(20 * time.Second)
		log.Sweep()
		if n := log.Len(); n > 5 {
			t.Fatalf("%d logs are held; at most 1 in use and 4 of the last minute should be", n)
		}
	}
	if n := len(timesOf(t, log, p, "in use")); n != 2 {
		t.Errorf("the log in use holds %d times of the last minute, want 2", n)
	}
}

// Checks alone must bound the memory without calls of Sweep.
func TestChecksSweepExpiredLogs(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "5/s")
	for i := range 200_000 {
		ask(t, log, p, fmt.Sprint("token:", i), 1)
		if i%10 == 0 {
			clock.Advance(time.Millisecond)
		}
	}
	// There are 10,000 new keys a second, and each may be kept for some seconds.
	if n := log.Len(); n > 50_000 {
		t.Errorf("%d logs are held, of which 10,000 are live", n)
	}
}

func TestClockJumpsDoNotKeepLogsForever(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "5/s", "50/h")
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 400 * 24 * time.Hour, -100 * 24 * time.Hour, -time.Millisecond} {
		for i := range 1000 {
			ask(t, log, p, fmt.Sprint("token:", jump, i), 1)
		}
		clock.Advance(jump)
		log.Sweep()
	}
	for range 20 {
		clock.Advance(30 * 24 * time.Hour)
		log.Sweep()
	}
	if n := log.Len(); n != 0 {
		t.Errorf("%d logs are still held", n)
	}
}

func TestResetFreesALogForReuse(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "5/m")
	for range 10 {
		ask(t, log, p, "a", 5)
		if existed, err := log.Reset(t.Context(), timestamplog.LogIDOf(p, "a")); !existed || err != nil {
			t.Fatalf("Reset() = %v, %v", existed, err)
		}
		if n := log.Len(); n != 0 {
			t.Fatalf("%d logs are held after the reset", n)
		}
		clock.Advance(7 * time.Second)
		log.Sweep()
	}
	ask(t, log, p, "a", 5)
	clock.Advance(59 * time.Second)
	log.Sweep()
	if n := log.Len(); n != 1 {
		t.Fatalf("%d logs are held, want the one that followed the resets", n)
	}
	clock.Advance(3 * time.Second)
	log.Sweep()
	if n := log.Len(); n != 0 {
		t.Fatalf("%d logs are held after their time", n)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	log, _ := filled(t, logtest.NewClock())
	if err := log.Close(); err != nil || log.Len() != 0 {
		t.Errorf("Close() = %v and leaves %d logs", err, log.Len())
	}
	if r := ask(t, log, policyOf(t, 1, "1/s"), "a", 1); !r.Allowed {
		t.Errorf("after Close: %+v", r)
	}
}

func TestEndedContextChargesNothing(t *testing.T) {
	log := memlog.New(memlog.Options{})
	p := policyOf(t, 1, "5/m")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results := make([]timestamplog.Result, 2)
	q := timestamplog.RequestOf(p, "a", 1)
	log.Decide(ctx, []timestamplog.Request{q, q}, results)
	for _, r := range results {
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("the error is %v", r.Err)
		}
	}
	if n := log.Len(); n != 0 {
		t.Errorf("%d logs are held", n)
	}
}

// In the suite the clock does not move while callers send requests. Here it moves, and the correct
// answer at each time follows from what was allowed before.
func TestConcurrentCallersOnAMovingClockAreDecidedExactly(t *testing.T) {
	clock := logtest.NewClock()
	start := clock.NowMS()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "3/2ms", "20/20ms", "60/80ms")
	var mu sync.Mutex
	allowed, refused := map[int64]int{}, map[int64]bool{}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			results := make([]timestamplog.Result, 1)
			requests := []timestamplog.Request{timestamplog.RequestOf(p, "a", 1)}
			for i := range 10_000 {
				log.Decide(t.Context(), requests, results)
				mu.Lock()
				if results[0].Allowed {
					allowed[results[0].Now-start]++
				} else {
					refused[results[0].Now-start] = true
				}
				mu.Unlock()
				if i%40 == 0 {
					clock.Advance(time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	for now := range clock.NowMS() - start {
		full := false
		for _, rule := range p.Rules {
			used := 0
			for age := range rule.WindowMS() {
				used += allowed[now-age]
			}
			if used > rule.Limit {
				t.Fatalf("%v allowed %d in the window that ends at +%d", rule, used, now)
			}
			full = full || used == rule.Limit
		}
		if refused[now] && !full {
			t.Fatalf("a request was refused at +%d although every rule had room", now)
		}
	}
}

func TestChecksDoNotAllocate(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "1/ms", "60/m")
	requests := []timestamplog.Request{timestamplog.RequestOf(p, "ip:203.0.113.7", 1)}
	results := make([]timestamplog.Result, 1)
	results[0].States = make([]timestamplog.RuleState, 0, len(p.Rules))
	for range 100 { // until the ring has reached its full size
		log.Decide(t.Context(), requests, results)
		clock.Advance(time.Second)
	}
	cases := []struct {
		name         string
		peek, detail bool
		wait         time.Duration
		allowed      bool
	}{
		{"an allowed check", false, false, time.Second, true},
		{"a refused check", false, false, 0, false},
		{"a peek", true, false, time.Second, true},
		{"a check with detail into given states", false, true, time.Second, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requests[0].Peek, requests[0].Detail = c.peek, c.detail
			allocations := testing.AllocsPerRun(200, func() {
				clock.Advance(c.wait)
				log.Decide(t.Context(), requests, results)
				if results[0].Allowed != c.allowed {
					t.Fatalf("Decide: got %+v", results[0])
				}
			})
			if allocations != 0 {
				t.Errorf("%v allocations per check", allocations)
			}
		})
	}
}

func TestIDsAreRemovedAfterTheirLifetime(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "100000/s")
	requests, results := make([]timestamplog.Request, 100), make([]timestamplog.Result, 100)
	highest := 0
	for round := range 600 { // ten minutes, ten times an ID's lifetime
		for i := range requests {
			requests[i] = timestamplog.RequestOf(p, fmt.Sprint("token:", i, round%50), 1)
			requests[i].ID = fmt.Sprint(round)
		}
		log.Decide(t.Context(), requests, results)
		clock.Advance(time.Second)
		if round%30 == 0 {
			highest = max(highest, log.KnownIDs())
		}
	}
	// 60 rounds are live. Since a log is examined only once in a lifetime, IDs may stay for two.
	if live := 60 * len(requests); highest > 3*live || highest < live {
		t.Errorf("up to %d IDs are held where %d are live", highest, live)
	}
	clock.Advance(time.Hour)
	log.Sweep()
	if n := log.KnownIDs(); n != 0 {
		t.Errorf("an hour later %d IDs are held", n)
	}
}

func TestExpiredCountersAreRemoved(t *testing.T) {
	for _, algorithm := range algorithms.All() {
		if algorithm.IsLog() {
			continue
		}
		t.Run(algorithm.Name, func(t *testing.T) {
			clock := logtest.NewClock()
			log := memlog.New(memlog.Options{Now: clock.Now})
			p := policyOf(t, 1, "5/s", "50/h")
			p.Algorithm = algorithm.Name
			for i := range 1000 {
				ask(t, log, p, fmt.Sprint("token:", i), 1)
			}
			if n := log.Len(); n != 1000 {
				t.Fatalf("%d counters are held, want 1000", n)
			}
			clock.Advance(2*time.Hour + 2*time.Second)
			log.Sweep()
			if n := log.Len(); n != 0 {
				t.Errorf("when the longest window has passed twice, %d counters are held", n)
			}
		})
	}
}

// TestWallClock tries several times, since the system clock may be set between two readings.
func TestWallClock(t *testing.T) {
	for range 100 {
		before := time.Now().Truncate(time.Microsecond)
		now := memlog.WallClock()
		if after := time.Now(); !now.Before(before) && !now.After(after) {
			return
		}
	}
	t.Errorf("the clock is at %s when it is %s", memlog.WallClock(), time.Now())
}

func TestTimeOfALogHasWholeMilliseconds(t *testing.T) {
	log := memlog.New(memlog.Options{})
	if now, err := log.Now(t.Context()); err != nil || !now.Equal(now.Truncate(time.Millisecond)) {
		t.Errorf("got %s, %v", now, err)
	}
}
