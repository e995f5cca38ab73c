package redislog_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// Two nodes share a Redis and use its clock, while many callers send requests for one key.
func TestTwoNodesNeverExceedALimitAndNeverRefuseNeedlessly(t *testing.T) {
	server := servers.Redis(t)
	nodes := []*redislog.Log{open(t, server, redislog.Options{}), open(t, server, redislog.Options{})}
	p := policy(t, 1, "20/10ms", "50/100ms", "150/1s", "100000/1h")
	const callers, requests = 32, 150
	answered := make([][]logtest.Answered, callers)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for range requests {
				cost := 1 + random.IntN(3)
				r := ask(t.Context(), nodes[caller%2], p, address, cost)
				answered[caller] = append(answered[caller], logtest.Answered{Cost: cost, Result: r})
			}
		})
	}
	group.Wait()
	logtest.CheckHistory(t, p.Rules, slices.Concat(answered...))
}
