package redislog_test

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) {
	// Do not log a line for each server that is killed on purpose.
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	servers.Main(m)
}

// open returns the log on server as one node sees it, until the test ends. Unless options say
// otherwise, a call may take as long as it does on a busy machine.
func open(t testing.TB, server *servers.RedisServer, options redislog.Options) *redislog.Log {
	t.Helper()
	options.Prefix = server.Prefix
	options.Timeout = cmp.Or(options.Timeout, 20*time.Second)
	log, err := redislog.Open(server.URL, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// connect returns a client for what a test does directly on server.
func connect(t testing.TB, server *servers.RedisServer) redis.UniversalClient {
	t.Helper()
	client, err := redisconn.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// runContracts runs the suites of the logs and of the counters.
func runContracts(t *testing.T, newHarness func(t *testing.T) logtest.Harness) {
	t.Run("timestamp log", func(t *testing.T) { logtest.Run(t, newHarness) })
	t.Run("sorted set", func(t *testing.T) { logtest.RunSortedSet(t, newHarness) })
	t.Run("distinct rules", func(t *testing.T) { logtest.RunDistinct(t, newHarness) })
	t.Run("counters", func(t *testing.T) { logtest.RunCounters(t, newHarness) })
}

func TestContract(t *testing.T) {
	server := servers.Redis(t)
	runContracts(t, func(t *testing.T) logtest.Harness { return newExpiring(t, server) })
}

// A node's cache of Redis's refusals must not change any answer.
func TestContractBehindTheRefusalCache(t *testing.T) {
	server := servers.Redis(t)
	runContracts(t, func(t *testing.T) logtest.Harness {
		h := newExpiring(t, server)
		h.Log = refusalcache.New(h.Log, refusalcache.Options{Now: logtest.Steady(h.Clock, refusalcache.MaxAge)})
		return h
	})
}

func TestPrefixCannotCreateAHashTag(t *testing.T) {
	for _, prefix := range []string{"a{b}", "{", "a b", "a\n", strings.Repeat("a", 65)} {
		if log, err := redislog.Open("redis://127.0.0.1", redislog.Options{Prefix: prefix}); err == nil {
			log.Close()
			t.Errorf("the prefix %q was taken", prefix)
		}
	}
}
