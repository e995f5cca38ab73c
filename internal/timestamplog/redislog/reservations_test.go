package redislog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// insist repeats a request for a reservation under an ID until it is answered.
func insist(t *testing.T, log *redislog.Log, p *rules.Policy, key, id string) timestamplog.Result {
	q := timestamplog.RequestOf(p, key, 1)
	q.MaxWait, q.ID = timestamplog.MaxWait, id
	results := make([]timestamplog.Result, 1)
	for deadline := time.Now().Add(time.Minute); ; {
		log.Decide(t.Context(), []timestamplog.Request{q}, results)
		if results[0].Err == nil {
			return results[0]
		}
		wantOutage(t, results[0].Err)
		if time.Now().After(deadline) {
			t.Errorf("the request %q is never answered: %v", id, results[0].Err)
			return results[0]
		}
	}
}

// Every lost answer may have charged. A caller that repeats the request under the same ID is
// still charged once, and no time is reserved twice.
func TestConnectionsCutUnderLoadChargeARequestWithAnIDOnce(t *testing.T) {
	server := servers.DedicatedRedis(t)
	admin := connect(t, server)
	nodes := []*redislog.Log{open(t, server, redislog.Options{}), open(t, server, redislog.Options{})}
	p := policy(t, 1, "7/1s", "100000/1h")
	const callers, each = 12, 40
	answered := make([][]logtest.Answered, callers)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for n := range each {
				r := insist(t, nodes[(caller+n)%2], p, address, fmt.Sprint(caller, "/", n))
				r.Now = r.ReservedAt // which is when it counts
				answered[caller] = append(answered[caller], logtest.Answered{Cost: 1, Result: r})
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for cut := true; cut; {
		select {
		case <-done:
			cut = false
		case <-time.After(3 * time.Millisecond):
			must(t, admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
		}
	}
	var all []logtest.Answered
	again := 0
	for _, its := range answered {
		for _, a := range its {
			if !a.Allowed {
				t.Fatalf("got %+v, want it allowed", a.Result)
			}
			if a.Replayed {
				again++
			}
			all = append(all, a)
		}
	}
	t.Logf("%d of %d were answered by what they had been charged before", again, len(all))
	if got := entries(t, nodes[0], p, address); got != callers*each {
		t.Errorf("%d requests made %d entries", callers*each, got)
	}
	if most := logtest.MaxAllowed(all, 1000); most > 7 {
		t.Errorf("%d reservations lie in one second, want at most 7", most)
	}
}

// While a slot is being moved, a log and its known IDs may be on two servers.
func TestMovingSlotsChargeARequestWithAnIDOnce(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	p := policy(t, 1, "100000/1h")
	nodes := []*redislog.Log{openURL(t, c.URL), openURL(t, c.URL)}
	keys := []string{"token:0", "token:1", "token:2"}
	asked := make([]int, len(keys))
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() {
			for going := true; going; asked[i]++ {
				if r := insist(t, nodes[i%2], p, key, fmt.Sprint("request ", asked[i])); !r.Allowed || r.Replayed {
					t.Errorf("got %+v, want it allowed", r)
				}
				select {
				case <-stop:
					going = false
				default:
				}
			}
		})
	}
	for _, key := range keys {
		name := redislog.LogName("stint", redislog.ShardOf(key), timestamplog.LogIDOf(p, key))
		servers.Await(t, "the key is asked for", func() bool { return entries(t, nodes[0], p, key) > 3 })
		c.Open(c.Slot(name)).Close()
		had := entries(t, nodes[0], p, key)
		servers.Await(t, "the key is asked for where it is now", func() bool { return entries(t, nodes[0], p, key) > had })
	}
	close(stop)
	group.Wait()
	for i, key := range keys {
		if got := entries(t, nodes[0], p, key); got != asked[i] {
			t.Errorf("%d requests for %s made %d entries", asked[i], key, got)
		}
	}
}

// Refusals in the cache of another node are no longer valid then.
func TestCancelledReservationIsPublishedToEveryNode(t *testing.T) {
	server := servers.Redis(t)
	here, there := open(t, server, redislog.Options{}), open(t, server, redislog.Options{})
	p := policy(t, 1, "1/10s")
	insist(t, here, p, address, "first")
	r := insist(t, here, p, address, "second")
	reservation := timestamplog.Reservation{LogID: timestamplog.LogIDOf(p, address), At: r.ReservedAt, Cost: 1, ID: "second"}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	heard, subscribed := make(chan timestamplog.LogID, 2), make(chan struct{}, 10)
	watching.Go(func() {
		there.WatchResets(ctx, func(id timestamplog.LogID) { heard <- id }, func() { subscribed <- struct{}{} })
	})
	<-subscribed
	for _, want := range []bool{true, false} {
		if made, err := here.Cancel(t.Context(), reservation); err != nil || made != want {
			t.Fatalf("Cancel: %v, %v, want %v", made, err, want)
		}
	}
	if id := <-heard; id != reservation.LogID {
		t.Errorf("heard of %+v, want %+v", id, reservation.LogID)
	}
	if len(heard) > 0 {
		t.Error("what freed nothing was published too")
	}
}
