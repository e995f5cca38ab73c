package redislog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// askAbout asks about several keys together.
func askAbout(t *testing.T, log *redislog.Log, p *rules.Policy, keys ...string) []timestamplog.Result {
	t.Helper()
	requests, results := make([]timestamplog.Request, len(keys)), make([]timestamplog.Result, len(keys))
	for i, key := range keys {
		requests[i] = timestamplog.RequestOf(p, key, 1)
	}
	log.Decide(t.Context(), requests, results)
	return results
}

// wantAll fails unless all requests were decided and have the same result.
func wantAll(t *testing.T, allowed bool, keys []string, results []timestamplog.Result) {
	t.Helper()
	for i, r := range results {
		if r.Err != nil || r.Allowed != allowed {
			t.Errorf("%s: got %+v, want it allowed: %v", keys[i], r, allowed)
		}
	}
}

func tokens(from, to int) (keys []string) {
	for i := from; i < to; i++ {
		keys = append(keys, fmt.Sprint("token:", i))
	}
	return keys
}

func TestOneCallAsksAPrimaryAboutAllSlots(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	log, p, keys := openURL(t, c.URL), policy(t, 1, "2/1h"), tokens(0, 60)
	wantAll(t, true, keys, askAbout(t, log, p, keys...)) // loads the library to each primary
	wantAll(t, true, keys, askAbout(t, log, p, keys...))
	calls := storage{primaries: c.Clients[:servers.Primaries]}.calls(t)
	wantAll(t, false, keys, askAbout(t, log, p, keys...))
	if made := (storage{primaries: c.Clients[:servers.Primaries]}).calls(t) - calls; made != servers.Primaries {
		t.Errorf("%d keys took %d calls, want one for each of %d primaries", len(keys), made, servers.Primaries)
	}
	for _, key := range keys {
		if n := entries(t, log, p, key); n != 2 {
			t.Errorf("%s has %d entries, want 2", key, n)
		}
	}
}

// Of the logs of a slot that moves, some are on one primary and some on the other. A call about
// other slots too decides what is there, and the rest is decided once, by the other primary.
func TestCallAboutSeveralSlotsFollowsASlotThatMoves(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	log, p, others := openURL(t, c.URL), policy(t, 1, "3/1h"), tokens(0, 20)
	var moving []string // of one shard: two logs that exist, and one that does not yet
	for n := 20; len(moving) < 3; n++ {
		key := fmt.Sprint("token:", n)
		if len(moving) == 0 || redislog.ShardOf(key) == redislog.ShardOf(moving[0]) {
			moving = append(moving, key)
		}
	}
	old, fresh := append(moving[:2:2], others...), moving[2]
	wantAll(t, true, old, askAbout(t, log, p, old...))
	slot := c.Open(c.Slot(fmt.Sprintf("{%d}", redislog.ShardOf(moving[0]))))
	if !slot.MoveOne() {
		t.Fatal("the slot has no log")
	}
	asks, all := c.ErrorsSaid("ASK"), append(old, fresh)
	wantAll(t, true, all, askAbout(t, log, p, all...))
	wantAll(t, true, all, askAbout(t, log, p, all...))
	if c.ErrorsSaid("ASK") == asks {
		t.Error("no request was sent on to the other primary")
	}
	wantAll(t, false, old, askAbout(t, log, p, old...))
	slot.Close()
	wantAll(t, false, old, askAbout(t, log, p, old...))
	wantAll(t, true, []string{fresh}, askAbout(t, log, p, append(others, fresh)...)[len(others):])
	for _, key := range all {
		if n := entries(t, log, p, key); n != 3 {
			t.Errorf("%s has %d entries, want 3", key, n)
		}
	}
	if outages := log.Outages(); len(outages) > 0 {
		t.Errorf("outages: %+v", outages)
	}
}

// A primary that becomes a replica answers a call about several slots with READONLY, and not with
// MOVED, since the call has no keys. Each request is then decided once, by the new primary.
func TestCallAboutSeveralSlotsFollowsADemotedPrimary(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	// A primary answers nobody for up to 5 s while it is demoted, which is go-redis's own timeout too.
	log, p, keys := openURL(t, c.URL+"&read_timeout=20s"), policy(t, 1, "10000/1h"), tokens(0, 40)
	old, successor, asked := c.Clients[0], c.Clients[servers.Primaries], 0
	askAll := func() {
		wantAll(t, true, keys, askAbout(t, log, p, keys...))
		asked++
	}
	askAll()
	replication := func(of *redis.Client) string { return of.Info(t.Context(), "replication").Val() }
	servers.Await(t, "the replica follows", func() bool { return strings.Contains(replication(successor), "master_link_status:up") })
	refusals := c.ErrorsSaid("READONLY")
	must(t, successor.ClusterFailover(t.Context()).Err())
	begun := time.Now()
	servers.Await(t, "the primary is demoted", func() bool {
		askAll()
		if time.Since(begun) > 8*time.Second { // the servers give up after 5 s, as on a busy machine
			_ = successor.ClusterFailover(t.Context()).Err() // an error once it is a primary
			begun = time.Now()
		}
		return strings.Contains(replication(old), "role:slave") && strings.Contains(replication(successor), "role:master")
	})
	for range 5 {
		askAll()
	}
	t.Logf("%d calls, %d answered READONLY", asked, c.ErrorsSaid("READONLY")-refusals)
	for _, key := range keys {
		if n := entries(t, log, p, key); n != asked {
			t.Errorf("%s has %d entries, want %d", key, n, asked)
		}
	}
	if outages := log.Outages(); len(outages) > 0 {
		t.Errorf("outages: %+v", outages)
	}
}

func TestClusterThatIsDownDecidesNothing(t *testing.T) {
	server := servers.ClusterOfOne(t)
	log, p, keys := open(t, server, redislog.Options{}), policy(t, 1, "2/1h"), tokens(0, 20)
	wantAll(t, true, keys, askAbout(t, log, p, keys...))
	admin := connect(t, server)
	must(t, admin.ClusterDelSlots(t.Context(), 0).Err()) // no shard is in it
	servers.Await(t, "the Cluster is down", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:fail")
	})
	for i, r := range askAbout(t, log, p, keys...) {
		if !errors.Is(r.Err, timestamplog.ErrUnreachable) || !strings.Contains(r.Err.Error(), "CLUSTERDOWN") {
			t.Errorf("%s: got %+v, want CLUSTERDOWN", keys[i], r)
		}
	}
}

func TestMinimumRightsAllowCallsAboutSeveralSlots(t *testing.T) {
	server := servers.ClusterOfOne(t)
	admin := connect(t, server)
	giveRights(t, admin)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "stint", "+cluster|slots", "+cluster|shards", "+command", "+readonly").Err())
	log := openURL(t, userURL(server))
	p, keys := policy(t, 1, "1/1h"), tokens(0, 20)
	wantAll(t, true, keys, askAbout(t, log, p, keys...))
	wantAll(t, false, keys, askAbout(t, log, p, keys...))
}

// A call about several slots fails only for the slot that no primary has.
func TestSlotThatNobodyServesFailsAlone(t *testing.T) {
	server := servers.ClusterOfOne(t)
	admin := connect(t, server)
	must(t, admin.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	var events outageEvents
	log, p, keys := open(t, server, redislog.Options{OnOutage: events.add}), policy(t, 1, "9/1h"), tokens(0, 20)
	wantAll(t, true, keys, askAbout(t, log, p, keys...))
	must(t, admin.ClusterDelSlots(t.Context(), int(admin.ClusterKeySlot(t.Context(), fmt.Sprintf("{%d}", redislog.ShardOf(keys[3]))).Val())).Err())
	for range 2 * redislog.FailureThreshold {
		for i, r := range askAbout(t, log, p, keys...) {
			if isGone := redislog.ShardOf(keys[i]) == redislog.ShardOf(keys[3]); errors.Is(r.Err, timestamplog.ErrSlotUnavailable) != isGone || r.Err != nil && !isGone {
				t.Errorf("%s: got %+v, want ErrSlotUnavailable: %v", keys[i], r, isGone)
			}
		}
	}
	if outages := events.list(); len(outages) > 0 {
		t.Errorf("outages: %+v", outages)
	}
}

// The texts are those of Redis 7.2 and newer, and of Valkey. Those of Redis 7.0 come from the server
// in the other tests.
func TestErrorsOfNewerServersAreUnderstood(t *testing.T) {
	admin := connect(t, servers.DedicatedRedis(t))
	must(t, admin.FunctionLoad(t.Context(), redislog.LibraryText+`
redis.register_function('answer', function(_, args)
  set_now('')
  return try_call(function() error({ err = args[1] }, 0) end)
end)`).Err())
	for said, want := range map[string]string{
		"ERR Script attempted to access a non local key in a cluster node":                                                 "\a",
		"ERR Script attempted to access a slot not served":                                                                 "\a",
		"ERR Command 'getrange' in script attempted to access keys that don't hash to the same slot":                       "\a",
		"ERR Unable to execute command 'set' in script because undeclared keys were accessed during rehashing of the slot": "\a",
		"ERR ACL failure in script: User stint has no permissions to run the 'getrange' command":                           "\x06",
		"ERR ACL failure in script: User stint has no permissions to access the 'stint:{1}:1.1:a' key":                     "NOPERM ",
		"ERR ACL failure in script: No permissions to access a key":                                                        "NOPERM ",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments":       "NOPERM ",
		"user_function:9: Script attempted to execute a command while the cluster is down":                                 "CLUSTERDOWN ",
		"ERR Script attempted to execute a command while the cluster is down":                                              "CLUSTERDOWN ",
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                "\x02",
		"OOM command not allowed when used memory > 'maxmemory'.":                                                          "OOM ",
	} {
		answer, err := admin.FCall(t.Context(), "answer", nil, said).Text()
		if err != nil {
			answer = err.Error()
		}
		if !strings.HasPrefix(answer, want) {
			t.Errorf("%q: got %q, want %q", said, answer, want)
		}
	}
}

// A call about several slots and a call about one say the same about a server that refuses the user
// the names of its logs.
func TestMissingRightToTheKeysIsNamed(t *testing.T) {
	server := servers.ClusterOfOne(t)
	admin := connect(t, server)
	giveRights(t, admin)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "stint", "+cluster|slots", "+cluster|shards", "+command", "+readonly", "resetkeys", "~other:*").Err())
	log, p := openURL(t, userURL(server)), policy(t, 1, "2/1h")
	loads := open(t, server, redislog.Options{})
	wantAll(t, true, []string{address}, askAbout(t, loads, p, address))
	for _, keys := range [][]string{{address}, tokens(0, 20)} {
		for i, r := range askAbout(t, log, p, keys...) {
			if r.Err == nil || !strings.Contains(r.Err.Error(), "NOPERM") {
				t.Errorf("%d keys, %s: got %+v, want NOPERM", len(keys), keys[i], r)
			}
		}
	}
}
