package redislog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

const day = 24 * time.Hour

// Wrapped entries repeat after 49.7 days, and a clock that steps back by weeks
// must not make a new entry look like an old one.
func TestClockThatStepsBackByWeeksKeepsTheLimits(t *testing.T) {
	server := servers.DedicatedRedis(t)
	admin := connect(t, server)
	clock := logtest.NewClock()
	log := open(t, server, redislog.Options{Clock: clock.Now})
	id := int64(0)
	for _, restarted := range []bool{false, true} {
		for _, days := range []int{1, 12, 20, 24, 25, 30, 37, 38, 40, 45, 49, 50, 60, 99, 200} {
			// The clock can only be set back this far on a Redis that has not stored a later
			// time.
			if restarted && days > 37 {
				continue
			}
			for _, stack := range []string{"1/1h", "1/12d", "1/31d"} {
				id++
				p := policy(t, id, stack)
				t.Run(fmt.Sprintf("%d days under %s, restarted %v", days, stack, restarted), func(t *testing.T) {
					clock.Set(logtest.Start.UnixMilli())
					if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
						t.Fatalf("got %+v, want it allowed", r)
					}
					if restarted {
						if err := admin.FunctionFlush(t.Context()).Err(); err != nil {
							t.Fatal(err)
						}
					}
					clock.Advance(-time.Duration(days) * day)
					times, now, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, address), 10)
					if err != nil || !slices.Equal(times, []int64{now}) {
						t.Errorf("at %d the log holds %v, %v, want one entry of now", now, times, err)
					}
					r := ask(t.Context(), log, p, address, 1)
					if want := clock.NowMS() + p.Rules[0].WindowMS(); r.Err != nil || r.RetryAt != want {
						t.Errorf("got %+v, want it limited until %d", r, want)
					}
					clock.Set(r.RetryAt)
					if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
						t.Errorf("a client who waited until RetryAt got %+v", r)
					}
				})
			}
		}
	}
}

// A stack of short windows may find entries that a stack of long ones left,
// too old to be wrapped, when it has to move the log.
func TestOldEntriesSurviveAShiftUnderAShorterStack(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log := open(t, server, redislog.Options{Clock: clock.Now})
	long, short := policy(t, 1, "2/31d"), policy(t, 1, "1/1h")
	short.Version = 2
	first := clock.NowMS()
	ask(t.Context(), log, long, address, 1)
	clock.Advance(30 * day)
	ask(t.Context(), log, long, address, 1)
	clock.Advance(-time.Minute)
	if r := ask(t.Context(), log, short, address, 1); r.Allowed || r.Err != nil {
		t.Fatalf("got %+v, want it limited by an entry that was moved to now", r)
	}
	want := first - time.Minute.Milliseconds()
	if r := ask(t.Context(), log, long, address, 1); r.Boundary != want {
		t.Errorf("got %+v, want it limited by the entry of %d", r, want)
	}
}
