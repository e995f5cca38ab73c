package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// The contract's random histories keep few entries. Logs of hundreds of entries are stored in
// blocks on Redis. They must answer like the log in memory while they grow, wrap, shrink and are
// shifted, and while reservations are made and cancelled.
func TestLongLogsDecideLikeTheLogInMemory(t *testing.T) {
	server := servers.Redis(t)
	for seed := range uint64(9) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			clock := logtest.NewClock()
			here, there := memlog.New(memlog.Options{Now: clock.Now}), open(t, server, redislog.Options{Clock: clock.Now})
			stacks := [][]string{{"150/1s", "400/1m"}, {"70/1s", "900/1h"}, {"100/1m"}}
			areLarge := seed >= 6 // with rings that become much too large
			if areLarge {
				stacks = [][]string{{"4000/5s"}, {"150/1s", "3000/4s"}}
			}
			p := policy(t, int64(100+seed), stacks[0]...)
			var reservations []timestamplog.Reservation
			cancelled := 0
			for step := range 1500 {
				switch random.IntN(150) {
				case 0:
					p.Version, p.Rules = p.Version+1, policy(t, 1, stacks[random.IntN(len(stacks))]...).Rules
				case 1:
					clock.Advance(-time.Duration(random.IntN(3000)) * time.Millisecond)
				case 2:
					clock.Advance(40 * time.Second)
				case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
					if len(reservations) == 0 {
						continue
					}
					reservation := reservations[len(reservations)-1-random.IntN(min(3, len(reservations)))]
					got, err := there.Cancel(t.Context(), reservation)
					if want, _ := here.Cancel(t.Context(), reservation); err != nil || got != want {
						t.Fatalf("step %d: Cancel(%+v): %v, %v, want %v", step, reservation, got, err, want)
					} else if want {
						cancelled++
					}
				default:
					clock.Advance(time.Duration(random.IntN(60)) * time.Millisecond)
				}
				cost := 1 + random.IntN(3)
				switch random.IntN(40) {
				case 0:
					cost = 1 + random.IntN(70)
				case 1:
					if areLarge {
						cost = 1 + random.IntN(p.Rules.LargestLimit()/4)
					}
				}
				q := timestamplog.RequestOf(p, address, cost)
				q.Detail = random.IntN(3) == 0
				if random.IntN(3) == 0 {
					q.MaxWait, q.ID = random.Int64N(3000), fmt.Sprint("request ", step)
				}
				want, got := make([]timestamplog.Result, 1), make([]timestamplog.Result, 1)
				here.Decide(t.Context(), []timestamplog.Request{q}, want)
				there.Decide(t.Context(), []timestamplog.Request{q}, got)
				w, g := want[0], got[0]
				if g.Err != nil || g.Allowed != w.Allowed || g.ReservedAt != w.ReservedAt || g.RetryAt != w.RetryAt || !slices.Equal(g.States, w.States) {
					t.Fatalf("step %d, cost %d, max wait %d under %v:\n got %+v\nwant %+v", step, cost, q.MaxWait, p.Rules, g, w)
				}
				if g.ReservedAt > g.Now {
					reservations = append(reservations, timestamplog.Reservation{LogID: q.LogID, At: g.ReservedAt, Cost: cost, ID: q.ID})
				}
				if step%50 > 0 {
					continue
				}
				times, _, err := there.Timestamps(t.Context(), timestamplog.LogIDOf(p, address), 1000)
				inMemory, _, _ := here.Timestamps(t.Context(), timestamplog.LogIDOf(p, address), 1000)
				if err != nil || !slices.Equal(times, inMemory) {
					t.Fatalf("step %d: the log holds\n%v, %v, want\n%v", step, times, err, inMemory)
				}
			}
			if cancelled == 0 && !areLarge {
				t.Error("no reservation was cancelled: it was not tried")
			}
		})
	}
}
