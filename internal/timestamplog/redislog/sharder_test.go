package redislog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// meeting returns n keys that are all in the same shard under a secret.
func meeting(secret string, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprint("token:", i)
		if redislog.ShardUnder([]byte(secret), key) == 7 {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestKeysThatCollideInAShardSpreadUnderAnotherSecret(t *testing.T) {
	shards := map[int]int{}
	for _, key := range meeting("guessed", 256) {
		shards[redislog.ShardUnder([]byte("real"), key)]++
	}
	for shard, n := range shards {
		if n > 16 { // one is expected on average
			t.Errorf("%d of 256 keys lie in shard %d", n, shard)
		}
	}
}

func TestNodesFindALogOnlyUnderTheSameSecret(t *testing.T) {
	server := servers.Redis(t)
	p := policy(t, 1, "2/1h")
	node := func(secret string) *redislog.Log {
		return open(t, server, redislog.Options{Secret: func() []byte { return []byte(secret) }})
	}
	if r := ask(t.Context(), node("one"), p, address, 2); !r.Allowed {
		t.Fatalf("got %+v", r)
	}
	if r := ask(t.Context(), node("one"), p, address, 1); r.Err != nil || r.Allowed {
		t.Errorf("a second node with the same secret: got %+v, want it refused", r)
	}
	names, err := connect(t, server).Keys(t.Context(), server.Prefix+"*").Result()
	must(t, err)
	want := fmt.Sprintf("%s:{%d}:1.1:%s", server.Prefix, redislog.ShardUnder([]byte("one"), address), address)
	if len(names) != 1 || names[0] != want {
		t.Errorf("the log is %q, want %q", names, want)
	}
}

// Until the secret has been read from the database, no log can be found. A decision from an empty
// log would lift a limit.
func TestRequestsFailWithoutTheSecret(t *testing.T) {
	server := servers.Redis(t)
	secret := ""
	log := open(t, server, redislog.Options{Secret: func() []byte { return []byte(secret) }})
	p := policy(t, 1, "2/1h")
	id := timestamplog.LogIDOf(p, address)
	refused := func(what string, err error) {
		if !errors.Is(err, timestamplog.ErrUnreachable) || !strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error that names the secret", what, err)
		}
	}
	refused("Decide", ask(t.Context(), log, p, address, 1).Err)
	refused("DecideAll", log.DecideAll(t.Context(), []timestamplog.Request{timestamplog.RequestOf(p, address, 1)}, make([]timestamplog.Result, 1)))
	_, _, err := log.Timestamps(t.Context(), id, 1)
	refused("Times", err)
	_, err = log.Reset(t.Context(), id)
	refused("Reset", err)
	_, err = log.Cancel(t.Context(), timestamplog.Reservation{LogID: id, At: 1, Cost: 1, ID: "a"})
	refused("Cancel", err)
	if names := connect(t, server).Keys(t.Context(), server.Prefix+"*").Val(); len(names) > 0 {
		t.Errorf("logs without a secret: %q", names)
	}
	secret = "known now"
	if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
		t.Errorf("with the secret: got %+v", r)
	}
}
