package redislog_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

func TestContractOnACluster(t *testing.T) {
	server := servers.ClusterOfOne(t)
	runContracts(t, func(t *testing.T) logtest.Harness {
		h := newExpiring(t, server)
		h.Steps, h.CrossSlot = 20, true
		return h
	})
}

func TestDecideAllOnAClusterNeedsKeysOfOneSlot(t *testing.T) {
	log, p := open(t, servers.ClusterOfOne(t), redislog.Options{}), policy(t, 1, "1/1h")
	near := "token:0"
	for n := 0; near == "token:0" || redislog.ShardOf(near) != redislog.ShardOf(address); n++ {
		near = fmt.Sprint("token:", n)
	}
	together := []timestamplog.Request{timestamplog.RequestOf(p, address, 1), timestamplog.RequestOf(p, near, 1)}
	apart := append(slices.Clone(together), timestamplog.RequestOf(p, near+"0", 1))
	results := make([]timestamplog.Result, 3)
	if err := log.DecideAll(t.Context(), apart, results); !errors.Is(err, timestamplog.ErrCrossSlot) {
		t.Errorf("keys of different slots: got the error %v, want ErrCrossSlot", err)
	}
	if got := entries(t, log, p, address); got != 0 {
		t.Errorf("requests that are not decided left %d entries", got)
	}
	for _, want := range []bool{true, false} {
		must(t, log.DecideAll(t.Context(), together, results[:2]))
		if results[0].Allowed != want || results[1].Allowed != want {
			t.Errorf("keys of one slot: got %+v, want them allowed: %v", results[:2], want)
		}
	}
}

// A Cluster that has lost its functions gets them on the servers that have the keys: no request
// is sent to a server that would have to redirect it.
func TestLibraryIsLoadedToThePrimaryOfTheKeys(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	log, err := redislog.Open(c.URL, redislog.Options{Timeout: 20 * time.Second})
	must(t, err)
	t.Cleanup(func() { log.Close() })
	p := policy(t, 1, "100/1h")
	askAll := func() {
		t.Helper()
		for i := range 20 {
			if r := ask(t.Context(), log, p, fmt.Sprint("token:", i), 1); r.Err != nil || !r.Allowed {
				t.Fatalf("key %d is answered %+v", i, r)
			}
		}
	}
	askAll()
	moved := c.ErrorsSaid("MOVED")
	for range 3 {
		for _, client := range c.Clients[:servers.Primaries] {
			must(t, client.FunctionFlush(t.Context()).Err())
		}
		askAll()
	}
	if more := c.ErrorsSaid("MOVED") - moved; more > 0 {
		t.Errorf("%d questions went to a server that does not have the key", more)
	}
}
