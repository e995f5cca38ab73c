package redislog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

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
	c := servers.Cluster(t)
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

func TestClusterThatIsDownDecidesNothing(t *testing.T) {
	server := clusterOfOne(t)
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
	server := clusterOfOne(t)
	admin := connect(t, server)
	giveRights(t, admin)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "stint", "+cluster|slots", "+cluster|shards", "+command", "+readonly").Err())
	log := openURL(t, userURL(server))
	p, keys := policy(t, 1, "1/1h"), tokens(0, 20)
	wantAll(t, true, keys, askAbout(t, log, p, keys...))
	wantAll(t, false, keys, askAbout(t, log, p, keys...))
}
