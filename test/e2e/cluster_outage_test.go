package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// onCluster returns a private Redis Cluster and the servers by which nodes use it.
func onCluster(t *testing.T) (*servers.RedisCluster, backends) {
	t.Helper()
	c := servers.Cluster(t, "--cluster-node-timeout", "120000") // a slow machine must not look like a death
	return c, backends{&servers.RedisServer{URL: c.URL, Prefix: "stint"}, servers.Postgres(t)}
}

// holds reports whether a server has the log of a key.
func holds(t *testing.T, c *servers.RedisCluster, server int, key string) bool {
	t.Helper()
	names, err := c.Clients[server].Keys(t.Context(), "*:"+key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(names) > 0
}

func TestStalledClusterPrimaryDegradesOnlyItsKeys(t *testing.T) {
	c, s := onCluster(t)
	nodes := s.start(t, 2, "--check-deadline", "3s")
	nodes[0].put("cluster", `{"match":["k:*"],"rules":["100000/h"],"on_failure":"deny"}`)
	const stalled = 1
	type watched struct {
		key              string
		its              bool
		answers, degrade atomic.Int64
	}
	var all []*watched
	its := 0
	// The names in Redis, and so the slots, differ from run to run.
	for i := 0; i < 12 || i < 100 && (its == 0 || its == len(all)); i++ {
		w := &watched{key: fmt.Sprintf("k:%d", i)}
		for _, n := range nodes {
			servers.Await(t, "the policy applies on every node", func() bool { return n.about(w.key).Policy == "cluster" })
			if d := n.about(w.key); d.Degraded {
				t.Fatalf("before the outage: got %+v", d)
			}
		}
		if w.its = holds(t, c, stalled, w.key); w.its {
			its++
		}
		all = append(all, w)
	}
	if its == 0 || its == len(all) {
		t.Fatalf("%d of %d keys are on the primary that is to be stopped, want some", its, len(all))
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, n := range nodes {
		for _, w := range all {
			asking.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(25 * time.Millisecond): // leave processor time for other processes
					}
					if d := n.about(w.key); d.Degraded {
						w.degrade.Add(1)
					}
					w.answers.Add(1)
				}
			})
		}
	}
	c.Servers[stalled].Stop()
	held := time.After(400 * time.Millisecond)
	answers, degrade := make([]int64, len(all)), make([]int64, len(all))
	for i, w := range all {
		answers[i], degrade[i] = w.answers.Load(), w.degrade.Load()
	}
	for i, w := range all {
		servers.Await(t, "every key is answered, by its policy where its primary stalls", func() bool {
			return w.answers.Load() >= answers[i]+20 && (!w.its || w.degrade.Load() >= degrade[i]+10)
		})
	}
	for _, n := range nodes {
		servers.Await(t, "/readyz shows the outage and stays ready", func() bool {
			_, ready := n.ready()
			return ready && !n.part("log").OK
		})
	}
	<-held
	c.Servers[stalled].Continue()
	for _, n := range nodes {
		servers.Await(t, "/readyz shows the end", func() bool { return n.part("log").OK })
	}
	close(stop)
	asking.Wait()
	for _, w := range all {
		if !w.its && w.degrade.Load() > 0 {
			t.Errorf("%d of %d answers about %s are degraded although its primary answers", w.degrade.Load(), w.answers.Load(), w.key)
		}
		for _, n := range nodes {
			if d := n.about(w.key); d.Degraded {
				t.Errorf("after the outage: got %+v", d)
			}
		}
	}
}
