package servers

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisCluster is a private Redis Cluster of six servers: three primaries, and
// behind each a replica, which is the server three places on.
type RedisCluster struct {
	Servers []*RedisServer
	Clients []*redis.Client // of each server by itself
	URL     string

	t   testing.TB
	ids []string
}

// Primaries is how many of the servers are primaries at the beginning.
const Primaries = 3

// hashSlots is how many slots a Redis Cluster has.
const hashSlots = 16384

// ClusterOfOne returns a Redis Cluster of one server, which ends with the test. args go to it.
func ClusterOfOne(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	server := DedicatedRedis(t, append([]string{"--cluster-enabled", "yes"}, args...)...)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, hashSlots-1).Err(); err != nil {
		t.Fatal(err)
	}
	Await(t, "the Cluster has all slots", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	server.URL = "redis+cluster://" + server.Addr
	return server
}

// Cluster returns a Redis Cluster that ends with the test. A primary that is
// missed for a second is replaced by its replica, and the others continue.
// args go to every server.
func Cluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	c := &RedisCluster{t: t}
	for range 2 * Primaries {
		server := DedicatedRedis(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
		}, args...)...)
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DisableIdentity: true})
		t.Cleanup(func() { client.Close() })
		id, err := client.ClusterMyID(t.Context()).Result()
		c.must(err)
		c.Servers, c.Clients, c.ids = append(c.Servers, server), append(c.Clients, client), append(c.ids, id)
	}
	host, port, err := net.SplitHostPort(c.Servers[0].Addr)
	c.must(err)
	for i, client := range c.Clients {
		if i > 0 {
			c.must(client.ClusterMeet(t.Context(), host, port).Err())
		}
		if i < Primaries {
			c.must(client.ClusterAddSlotsRange(t.Context(), i*hashSlots/Primaries, (i+1)*hashSlots/Primaries-1).Err())
		}
	}
	for i := Primaries; i < 2*Primaries; i++ {
		c.await("the servers know each other", func() bool {
			return c.Clients[i].ClusterReplicate(t.Context(), c.ids[i-Primaries]).Err() == nil
		})
	}
	c.await("the cluster is whole", c.isWhole)
	c.URL = fmt.Sprintf("redis+cluster://%s?addr=%s&addr=%s", c.Servers[0].Addr, c.Servers[1].Addr, c.Servers[2].Addr)
	return c
}

// isWhole reports whether every server reports the cluster as ok and each primary
// has a replica that is up to date.
func (c *RedisCluster) isWhole() bool {
	for i, client := range c.Clients {
		cluster := client.ClusterInfo(c.t.Context()).Val()
		if !strings.Contains(cluster, "cluster_state:ok") || !strings.Contains(cluster, fmt.Sprintf("cluster_slots_ok:%d\r", hashSlots)) {
			return false
		}
		info := client.Info(c.t.Context(), "replication").Val()
		if i < Primaries && !strings.Contains(info, "connected_slaves:1") || i >= Primaries && !strings.Contains(info, "master_link_status:up") {
			return false
		}
	}
	return true
}

// Slot returns the slot of a key of Redis.
func (c *RedisCluster) Slot(name string) int {
	c.t.Helper()
	slot, err := c.Clients[0].ClusterKeySlot(c.t.Context(), name).Result()
	c.must(err)
	return int(slot)
}

// Owner returns which of the servers reports a slot as its own.
func (c *RedisCluster) Owner(slot int) int {
	c.t.Helper()
	for i, client := range c.Clients {
		ranges, err := client.ClusterSlots(c.t.Context()).Result() //nolint:staticcheck // its answer is simpler than that of what replaces it
		if err != nil {
			continue // it may have been killed
		}
		for _, r := range ranges {
			if r.Start <= slot && slot <= r.End && r.Nodes[0].ID == c.ids[i] {
				return i
			}
		}
	}
	c.t.Fatalf("no server has the slot %d", slot)
	return -1
}

// OpenSlot is a slot that is on its way from one primary to another: new keys are
// made there, and those that it holds are moved one by one.
type OpenSlot struct {
	Slot, From, To int
	cluster        *RedisCluster
}

// Open begins to move a slot from the primary that has it to the next of the
// first three servers.
func (c *RedisCluster) Open(slot int) *OpenSlot {
	c.t.Helper()
	from := c.Owner(slot)
	o := &OpenSlot{Slot: slot, From: from, To: (from + 1) % Primaries, cluster: c}
	ctx := c.t.Context()
	c.must(c.Clients[o.To].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[o.From]).Err())
	c.must(c.Clients[o.From].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[o.To]).Err())
	return o
}

// MoveOne moves one of the keys that are left, and reports whether there was one.
func (o *OpenSlot) MoveOne() bool {
	c := o.cluster
	c.t.Helper()
	names, err := c.Clients[o.From].ClusterGetKeysInSlot(c.t.Context(), o.Slot, 1).Result()
	c.must(err)
	if len(names) == 0 {
		return false
	}
	host, port, err := net.SplitHostPort(c.Servers[o.To].Addr)
	c.must(err)
	c.must(c.Clients[o.From].Migrate(c.t.Context(), host, port, names[0], 0, 5*time.Second).Err())
	return true
}

// Close moves the keys that are left and gives the slot to its new primary.
func (o *OpenSlot) Close() {
	c := o.cluster
	c.t.Helper()
	for o.MoveOne() {
		time.Sleep(5 * time.Millisecond) // the slot lies open for a while
	}
	c.lead(o.To)
	for _, i := range []int{o.To, o.From, (o.From + 2) % Primaries} {
		c.must(c.Clients[i].Do(c.t.Context(), "CLUSTER", "SETSLOT", o.Slot, "NODE", c.ids[o.To]).Err())
	}
}

// lead waits until a primary has a greater epoch than the others. It could otherwise give
// the slot back when it hears once more from the one that had it, which by then has given
// it away, and both would always point to each other.
func (c *RedisCluster) lead(primary int) {
	c.t.Helper()
	c.await("the primary has the greatest epoch", func() bool {
		greatest := 0
		for i := range Primaries {
			if i != primary {
				greatest = max(greatest, c.epoch(i))
			}
		}
		if c.epoch(primary) > greatest {
			return true
		}
		c.must(c.Clients[primary].Do(c.t.Context(), "CLUSTER", "BUMPEPOCH").Err())
		return false
	})
}

// epoch returns the epoch of a primary's own slots.
func (c *RedisCluster) epoch(primary int) (epoch int) {
	c.t.Helper()
	info, err := c.Clients[primary].ClusterInfo(c.t.Context()).Result()
	c.must(err)
	_, rest, _ := strings.Cut(info, "cluster_my_epoch:")
	if _, err := fmt.Sscan(rest, &epoch); err != nil {
		c.t.Fatalf("CLUSTER INFO has no epoch: %q", info)
	}
	return epoch
}

// ErrorsSaid returns how many errors that begin with a word the servers have
// answered, as far as they can be asked.
func (c *RedisCluster) ErrorsSaid(word string) (count int64) {
	c.t.Helper()
	for _, client := range c.Clients {
		info := client.Info(c.t.Context(), "errorstats").Val()
		var n int64
		if _, rest, found := strings.Cut(info, "errorstat_"+word+":count="); found {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				c.t.Fatalf("INFO errorstats has no count: %q", info)
			}
		}
		count += n
	}
	return count
}

func (c *RedisCluster) await(what string, is func() bool) {
	c.t.Helper()
	Await(c.t, what, is)
}

func (c *RedisCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
