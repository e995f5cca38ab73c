package redislog_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// minRights are the rights that docs/REDIS.md lists.
var minRights = []string{
	"on", ">word:with@signs", "resetkeys", "~stint:*", "resetchannels", "&stint:resets", "-@all",
	"+fcall", "+function|load", "+unlink", "+publish", "+subscribe", "+time", "+info", "+ping", "+hello",
	// For the commands that the function library calls.
	"+getrange", "+setrange", "+set", "+pexpireat",
	// For IDs, sorted sets, counters and distinct rules.
	"+zadd", "+zmscore", "+zrange", "+zrem", "+zremrangebyscore", "+zremrangebyrank", "+zrangebyscore", "+zcard", "+zcount",
	"+zrevrank", "+pexpiretime", "+del", "+get",
}

// minRightsInCluster are the additional rights that a Cluster requires.
var minRightsInCluster = []string{"+cluster|slots", "+cluster|shards", "+command", "+readonly"}

func TestUserWithTheDocumentedRightsIsEnough(t *testing.T) {
	user := url.UserPassword("stint", "word:with@signs").String() + "@"
	t.Run("on one server", func(t *testing.T) {
		server := servers.DedicatedRedis(t)
		restrict(t, connect(t, server), minRights)
		tryRights(t, "redis://"+user+server.Addr+"/0")
		wrong := openURL(t, "redis://stint:wrong@"+server.Addr+"/0")
		wantOutage(t, ask(t.Context(), wrong, policy(t, 1, "2/1h"), address, 1).Err)
	})
	t.Run("in a cluster", func(t *testing.T) {
		server := servers.ClusterOfOne(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		defer client.Close()
		restrict(t, client, slices.Concat(minRights, minRightsInCluster))
		tryRights(t, "redis+cluster://"+user+server.Addr)
	})
}

// restrict leaves one user with these rights.
func restrict(t *testing.T, admin redis.UniversalClient, rights []string) {
	t.Helper()
	command := []any{"ACL", "SETUSER", "stint"}
	for _, right := range rights {
		command = append(command, right)
	}
	must(t, admin.Do(t.Context(), command...).Err())
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err())
}

// tryRights does everything that a node does.
func tryRights(t *testing.T, url string) {
	t.Helper()
	log := openURL(t, url)
	p := policy(t, 1, "2/1h")
	for i, want := range []bool{true, true, false} {
		if r := ask(t.Context(), log, p, address, 1); r.Err != nil || r.Allowed != want {
			t.Fatalf("request %d: %+v", i, r)
		}
	}
	if times, _, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, address), 10); err != nil || len(times) != 2 {
		t.Errorf("Times: %v, %v", times, err)
	}
	if _, err := log.Now(t.Context()); err != nil {
		t.Errorf("Now: %v", err)
	}
	if _, err := log.Health(t.Context()); err != nil {
		t.Errorf("Health: %v", err)
	}
	heard, subscribed := make(chan timestamplog.LogID, 1), make(chan struct{}, 1)
	go log.WatchResets(t.Context(), func(id timestamplog.LogID) { heard <- id }, func() { subscribed <- struct{}{} })
	<-subscribed
	if held, err := log.Reset(t.Context(), timestamplog.LogIDOf(p, address)); err != nil || !held {
		t.Errorf("Reset: %v, %v", held, err)
	}
	if id := <-heard; id != timestamplog.LogIDOf(p, address) {
		t.Errorf("heard of a reset of %+v", id)
	}
	clock := logtest.NewClock()
	stepping, err := redislog.Open(url, redislog.Options{Clock: clock.Now, Timeout: 20 * time.Second})
	must(t, err)
	defer stepping.Close()
	tryDistinct(t, stepping, clock)
	for i, a := range algorithms.All() {
		p := policy(t, int64(10+i), "2/1s", "5/1m")
		p.Algorithm = a.Name
		if a.TakesReservations() {
			tryReservations(t, stepping, clock, p)
		} else if r := ask(t.Context(), stepping, p, address, 1); r.Err != nil || !r.Allowed {
			t.Errorf("under %s: %+v", a.Name, r)
		}
		if a.Takes(algorithms.OptionCountRefused) {
			p.Version, p.Options.CountRefused = 2, true
			for range 7 {
				must(t, ask(t.Context(), stepping, p, address, 1).Err)
			}
		}
	}
}

// tryDistinct makes requests under a distinct rule, also after the clock stepped back.
func tryDistinct(t *testing.T, log *redislog.Log, clock *logtest.Clock) {
	t.Helper()
	p := policy(t, 100, "2/1h distinct path")
	for _, value := range []uint64{1, 2, 3, 1} {
		q := timestamplog.RequestOf(p, address, 1)
		q.Value, q.Detail = value, true
		results := make([]timestamplog.Result, 1)
		if log.Decide(t.Context(), []timestamplog.Request{q}, results); results[0].Err != nil || results[0].Allowed != (value != 3) {
			t.Errorf("under a distinct rule value %d got %+v", value, results[0])
		}
		clock.Advance(-time.Minute)
	}
}

// tryReservations makes and cancels reservations of one log, shifts it and resets it.
func tryReservations(t *testing.T, log *redislog.Log, clock *logtest.Clock, p *rules.Policy) {
	t.Helper()
	results := make([]timestamplog.Result, 1)
	for n := range 6 {
		q := timestamplog.RequestOf(p, address, 1)
		q.Detail, q.MaxWait, q.ID = true, timestamplog.MaxWait, fmt.Sprint("request ", n)
		must(t, log.DecideAll(t.Context(), []timestamplog.Request{q}, results))
		if !results[0].Allowed {
			t.Fatalf("under %s request %d: %+v", p.Algorithm, n, results[0])
		}
	}
	reservation := timestamplog.Reservation{LogID: timestamplog.LogIDOf(p, address), At: results[0].ReservedAt, Cost: 1, ID: "request 5"}
	if made, err := log.Cancel(t.Context(), reservation); err != nil || !made {
		t.Errorf("under %s Cancel: %v, %v", p.Algorithm, made, err)
	}
	clock.Advance(-2 * time.Hour)
	must(t, ask(t.Context(), log, p, address, 1).Err)
	if _, _, err := log.Timestamps(t.Context(), reservation.LogID, 10); err != nil {
		t.Errorf("under %s Times: %v", p.Algorithm, err)
	}
	if held, err := log.Reset(t.Context(), reservation.LogID); err != nil || !held {
		t.Errorf("under %s Reset: %v, %v", p.Algorithm, held, err)
	}
}
