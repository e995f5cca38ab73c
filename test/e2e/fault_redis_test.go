package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/test/servers"
)

// outageDeadline is short, so that an outage shows soon; a busy machine may then
// look like one, which the rows that use it allow.
const outageDeadline = 300 * time.Millisecond

const (
	degradesAll = "while it lasts every check is answered, as its policy's on_failure says and marked degraded; nothing that was allowed is lost; it ends by itself"
	losesLog    = "as when Redis is killed; but the log starts empty, so at most N more"
)

func redisFaults() []fault {
	both := []int{0, 1}
	var restarting sync.WaitGroup
	outage := func(name, done string, inflict, heal func(w *world)) fault {
		return fault{
			name: name, done: done, promise: degradesAll, deadline: outageDeadline, degrades: both, mayDegrade: true,
			redisArgs: []string{"--appendonly", "yes", "--appendfsync", "always"},
			inflict:   inflict, during: func(w *world) { w.showsOutage(0, 1) }, heal: heal, after: func(w *world) { w.showsNoOutage(0, 1) },
		}
	}
	killed := outage("Redis killed", "kill -9, started again with its append-only file",
		func(w *world) { w.redis.Kill() }, func(w *world) { w.redis.Restart(false) })
	killed.quick = true
	emptied := outage("Redis killed and empty", "kill -9, started again with nothing",
		func(w *world) { w.redis.Kill() }, func(w *world) { w.redis.Restart(true) })
	emptied.promise, emptied.loses = losesLog, 1
	loading := outage("Redis loading", "a snapshot, kill -9, started again while it loads the snapshot slowly and answers LOADING",
		func(w *world) {
			w.command(w.redis, "SAVE")
			w.redis.Kill()
			restarting.Go(func() { w.redis.Restart(false) })
		},
		func(w *world) {
			servers.Await(w, "it loads as fast as it can", func() bool {
				c := commandsOf(w.redis)
				defer c.Close()
				return c.ConfigSet(w.Context(), "key-load-delay", "0").Err() == nil
			})
			restarting.Wait()
		})
	loading.redisArgs = []string{"--key-load-delay", "300000", "--loading-process-events-interval-bytes", "1024"}
	loading.promise, loading.loses = "as when Redis is killed; but what came after the snapshot is lost, so at most N more", 1
	return []fault{
		killed, emptied,
		outage("Redis stopped", "SIGSTOP, then SIGCONT", func(w *world) { w.redis.Stop() }, func(w *world) { w.redis.Continue() }),
		{
			name: "Redis slow", done: "5 ms more each way on both nodes", promise: "no check is degraded, every limit is exact",
			inflict: func(w *world) { w.delayRedis(5 * time.Millisecond) }, heal: func(w *world) { w.delayRedis(0) },
		},
		{
			name: "Redis emptied", done: "FLUSHALL under load", promise: "no check is degraded; at most N more", loses: 1, quick: true,
			inflict: func(w *world) { w.command(w.redis, "FLUSHALL") },
		},
		{
			name: "functions flushed", done: "FUNCTION FLUSH, ten times", promise: "no check is degraded, none is charged twice, every limit is exact",
			inflict: func(w *world) {
				for range 10 {
					w.command(w.redis, "FUNCTION", "FLUSH")
					time.Sleep(20 * time.Millisecond)
				}
			},
		},
		outage("Redis busy", "a script that does not end, so that every command is answered BUSY; then SCRIPT KILL",
			func(w *world) {
				w.command(w.redis, "CONFIG", "SET", "busy-reply-threshold", "50")
				go func() {
					c := commandsOf(w.redis)
					defer c.Close()
					c.Do(w.Context(), "EVAL", "while true do end", "0") // ends by SCRIPT KILL, with an error
				}()
			},
			func(w *world) {
				servers.Await(w, "the script is killed", func() bool {
					c := commandsOf(w.redis)
					defer c.Close()
					return c.Do(w.Context(), "SCRIPT", "KILL").Err() == nil
				})
			}),
		outage("Redis out of memory", "maxmemory of one byte under noeviction, so that every write is answered OOM",
			func(w *world) { w.command(w.redis, "CONFIG", "SET", "maxmemory", "1") },
			func(w *world) { w.command(w.redis, "CONFIG", "SET", "maxmemory", "0") }),
		outage("Redis read-only", "made the replica of a server that is not there, so that every write is answered READONLY; then a primary again",
			func(w *world) { w.command(w.redis, "REPLICAOF", "127.0.0.1", "1") },
			func(w *world) { w.command(w.redis, "REPLICAOF", "NO", "ONE") }),
		outage("Redis with another password", "requirepass, and every connection cut",
			func(w *world) {
				c := commandsOf(w.redis) // its one connection stays as it is
				defer c.Close()
				for _, args := range [][]any{{"CONFIG", "SET", "requirepass", "another"}, {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}} {
					if err := c.Do(w.Context(), args...).Err(); err != nil {
						w.Fatalf("%v: %v", args, err)
					}
				}
			},
			func(w *world) {
				c := commandsOf(w.redis)
				defer c.Close()
				if err := c.Do(w.Context(), "AUTH", "another").Err(); err != nil {
					w.Fatal(err)
				}
				options := *c.Options()
				options.Password = "another"
				as := redis.NewClient(&options)
				defer as.Close()
				if err := as.Do(w.Context(), "CONFIG", "SET", "requirepass", "").Err(); err != nil {
					w.Fatal(err)
				}
			}),
		loading,
		{
			name: "Redis cut off from one node", done: "the way of node 0 is cut, that of node 1 is not", quick: true,
			promise:  "node 0 answers degraded, node 1 does not; nothing that was allowed is lost; it ends by itself",
			degrades: []int{0},
			inflict:  func(w *world) { w.redisWays[0].Cut() }, during: func(w *world) { w.showsOutage(0); w.showsNoOutage(1) },
			heal: func(w *world) { w.redisWays[0].Join() }, after: func(w *world) { w.showsNoOutage(0, 1) },
		},
		{
			name: "Redis evicting", done: "allkeys-random, and for an instant half a megabyte less memory than is in use", loses: 1,
			promise: "no check is degraded; a key whose log was evicted may be allowed at most N more; /readyz and the log report it",
			inflict: evict,
			during: func(w *world) {
				for i, n := range w.nodes {
					servers.Await(w, fmt.Sprintf("node %d reports the eviction and stays ready", i), func() bool {
						_, ready := n.ready()
						return ready && !n.part("eviction").OK && len(n.lines("level=ERROR", "Redis has evicted keys")) > 0
					})
				}
			},
			heal: func(w *world) { w.command(w.redis, "CONFIG", "SET", "maxmemory-policy", "noeviction") },
		},
		clockFault("Redis's clock an hour ahead", "its clock steps an hour ahead", "waits end early by as much, so at most N more", time.Hour, 1),
		clockFault("Redis's clock an hour behind", "its clock steps an hour back", "every limit stays closed: never more than N", -time.Hour, 0),
	}
}

// evict makes Redis evict keys once: filler keys and logs.
func evict(w *world) {
	w.Helper()
	w.command(w.redis, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	for i := range 200 {
		w.command(w.redis, "SET", fmt.Sprint("filling", i), strings.Repeat("x", 10_000))
	}
	c := commandsOf(w.redis)
	defer c.Close()
	used, err := strconv.Atoi(c.InfoMap(w.Context(), "memory").Item("Memory", "used_memory"))
	if err != nil {
		w.Fatal(err)
	}
	w.command(w.redis, "CONFIG", "SET", "maxmemory", fmt.Sprint(used-500_000))
	w.command(w.redis, "CONFIG", "SET", "maxmemory", "0")
}

func clockFault(name, done, promise string, step time.Duration, loses int) fault {
	return fault{
		name: name, done: done, promise: promise, loses: loses,
		start: func(t *testing.T) *world { return pair(t, 0, false, servers.RedisWithClock(t)) },
		inflict: func(w *world) {
			before := w.redisTime()
			w.redis.StepClock(step)
			servers.Await(w, "the clock of Redis has stepped", func() bool { return (w.redisTime().Sub(before) - step).Abs() < step.Abs()/2 })
		},
	}
}

func (w *world) redisTime() time.Time {
	w.Helper()
	c := commandsOf(w.redis)
	defer c.Close()
	at, err := c.Time(w.Context()).Result()
	if err != nil {
		w.Fatal(err)
	}
	return at
}

func (w *world) delayRedis(d time.Duration) {
	for _, way := range w.redisWays {
		way.Delay(d)
	}
}

func commandsOf(s *servers.RedisServer) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DisableIdentity: true, ReadTimeout: waitTimeout})
}

func (w *world) command(s *servers.RedisServer, args ...any) any {
	w.Helper()
	c := commandsOf(s)
	defer c.Close()
	got, err := c.Do(w.Context(), args...).Result()
	if err != nil {
		w.Fatalf("%v: %v", args, err)
	}
	return got
}

// showsOutage waits until nodes report that their log is unreachable, and are ready
// anyway.
func (w *world) showsOutage(nodes ...int) {
	w.Helper()
	for _, i := range nodes {
		servers.Await(w, fmt.Sprintf("node %d reports that its log is unreachable and stays ready", i), func() bool {
			_, ready := w.nodes[i].ready()
			return ready && !w.nodes[i].part("log").OK
		})
	}
}

func (w *world) showsNoOutage(nodes ...int) {
	w.Helper()
	for _, i := range nodes {
		servers.Await(w, fmt.Sprintf("node %d reports that its log is reachable", i), func() bool { return w.nodes[i].part("log").OK })
	}
}

func clusterFaults() []fault {
	const deadline = 3 * time.Second
	// forLong keeps a server that is stopped from being taken for dead.
	forLong := []string{"--cluster-node-timeout", "120000"}
	start := func(args ...string) func(t *testing.T) *world {
		return func(t *testing.T) *world {
			c := servers.Cluster(t, args...)
			w := &world{T: t, cluster: c, backends: backends{postgres: servers.Postgres(t)}}
			for i := range 2 {
				w.postgresWays = append(w.postgresWays, servers.NewProxy(t, w.postgres.Addr))
				w.nodes = append(w.nodes, w.launch(i, deadline, c.URL))
			}
			w.awaitRunning()
			return w
		}
	}
	return []fault{
		{
			name: "Cluster: a slot is moved", done: "a slot under load is held open for 500 ms, one of its keys moved, then it is given to another primary",
			promise: "no check is degraded, every limit is exact", start: start(forLong...), inflict: moveSlot,
		},
		{
			name: "Cluster: a primary stops", done: "SIGSTOP to one of three primaries until checks are degraded, then SIGCONT",
			promise: "no key of another primary is degraded; what came late is charged at most once", start: start(forLong...), mayDegrade: true, degrades: []int{0, 1},
			inflict: func(w *world) { w.cluster.Servers[0].Stop() },
			heal:    func(w *world) { w.cluster.Servers[0].Continue(); w.showsNoOutage(0, 1) },
			after:   othersKeysWereNotDegraded,
		},
		{
			name: "Cluster: a primary is failed over", done: "kill -9 to a primary; its replica takes over", loses: 1,
			promise: "checks of its slots are degraded until then; what the replica had not received is lost: at most N more", start: start(), mayDegrade: true,
			inflict: func(w *world) { w.cluster.Servers[0].Kill() },
			heal: func(w *world) {
				servers.Await(w, "all slots are served again", func() bool {
					info := w.cluster.Clients[1].ClusterInfo(w.Context()).Val()
					return strings.Contains(info, "cluster_slots_ok:16384") && strings.Contains(info, "cluster_state:ok") &&
						strings.Contains(w.cluster.Clients[3].Info(w.Context(), "replication").Val(), "role:master")
				})
			},
		},
		sentinelFault(deadline),
	}
}

func sentinelFault(deadline time.Duration) fault {
	var replica *servers.RedisServer
	return fault{
		name: "Sentinel: the primary is failed over", done: "kill -9 to the primary; two of three Sentinels make its replica the primary", loses: 1,
		promise: "checks are degraded until then; what the replica had not received is lost: at most N more", mayDegrade: true, degrades: []int{0, 1},
		start: func(t *testing.T) *world {
			w := &world{T: t, backends: backends{redis: servers.DedicatedRedis(t), postgres: servers.Postgres(t)}}
			replica = servers.DedicatedRedis(t, "--repl-diskless-sync-delay", "0")
			host, port, _ := strings.Cut(w.redis.Addr, ":")
			w.command(replica, "REPLICAOF", host, port)
			servers.Await(t, "the replica follows", func() bool {
				return strings.Contains(fmt.Sprint(w.command(replica, "INFO", "replication")), "master_link_status:up")
			})
			addresses := servers.Sentinels(t, "primary", w.redis)
			url := "redis+sentinel://" + addresses[0] + "?master_name=primary&addr=" + addresses[1] + "&addr=" + addresses[2]
			for i := range 2 {
				w.postgresWays = append(w.postgresWays, servers.NewProxy(t, w.postgres.Addr))
				w.nodes = append(w.nodes, w.launch(i, deadline, url))
			}
			w.awaitRunning()
			return w
		},
		inflict: func(w *world) { w.redis.Kill() },
		heal: func(w *world) {
			c := commandsOf(replica)
			defer c.Close()
			servers.Await(w, "the replica is the primary", func() bool {
				return strings.Contains(c.Info(w.Context(), "replication").Val(), "role:master")
			})
			w.showsNoOutage(0, 1)
		},
	}
}

// moveSlot moves the slot of a key that is checked all the time to the next
// primary, and holds it open halfway.
func moveSlot(w *world) {
	for from := range servers.Primaries {
		keys, err := w.cluster.Clients[from].Keys(w.Context(), "*slide:*").Result()
		if err != nil {
			w.Fatal(err)
		}
		if len(keys) == 0 {
			continue
		}
		open := w.cluster.Open(w.cluster.Slot(keys[0]))
		open.MoveOne()
		time.Sleep(500 * time.Millisecond) // the slot is open, which is what the row is about
		open.Close()
		return
	}
	w.Fatal("no primary has a key of the load")
}

// othersKeysWereNotDegraded checks the keys on the primaries that were not
// stopped.
func othersKeysWereNotDegraded(w *world) {
	w.Helper()
	w.load.end()
	for i := 1; i < 3; i++ {
		keys, err := w.cluster.Clients[i].Keys(w.Context(), "*").Result()
		if err != nil {
			w.Fatal(err)
		}
		for _, key := range keys {
			for _, name := range []string{"local:", "allow:", "deny:"} {
				if at := strings.LastIndex(key, ":"+name); at >= 0 {
					if k := w.load.keys[key[at+1:]]; k != nil && k.degraded > 0 {
						w.Errorf("%s is on primary %d, which was not stopped, and was degraded %d times", key[at+1:], i, k.degraded)
					}
				}
			}
		}
	}
}
