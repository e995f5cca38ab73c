package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// The batcher gives the same answers as its plain version, which makes a call for each request.
func TestBatcherAnswersLikeACallForEachRequest(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log := open(t, server, redislog.Options{Clock: clock.Now, Timeout: time.Minute})
	policies := []*rules.Policy{policy(t, 1, "3/s", "9/m"), policy(t, 2, "20/10s"), policy(t, 3, "1/s")}
	random := rand.New(rand.NewPCG(1, 2))
	allowed := 0
	for round := range 40 {
		requests := make([]timestamplog.Request, 1+random.IntN(300)) // more than one call carries
		for i := range requests {
			p := policies[random.IntN(len(policies))]
			q := timestamplog.RequestOf(p, fmt.Sprint("ip:192.0.2.", random.IntN(9)), 1)
			q.Peek, q.Detail = random.IntN(5) == 0, random.IntN(2) == 0
			if round%2 == 1 && random.IntN(3) == 0 && !q.Peek {
				q.MaxWait, q.ID = 2000, fmt.Sprint("id ", round, " ", random.IntN(100))
			}
			requests[i] = q
		}
		got, want := make([]timestamplog.Result, len(requests)), make([]timestamplog.Result, len(requests))
		log.Decide(t.Context(), requests, got)
		for i := range requests {
			requests[i].Policy += 100 // logs of their own
		}
		log.DecidePlain(t.Context(), requests, want)
		for i := range requests {
			if got[i].Err != nil || !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("round %d, request %d %+v:\n got %+v\nwant %+v", round, i, requests[i], got[i], want[i])
			}
			if got[i].Allowed {
				allowed++
			}
		}
		clock.Advance(time.Duration(random.IntN(900)) * time.Millisecond)
	}
	if allowed == 0 {
		t.Error("nothing was ever allowed")
	}
}
