package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/test/servers"
)

// do sends one command to the Redis itself.
func (s backends) do(t *testing.T, command ...any) {
	t.Helper()
	if err := s.commands(t).Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// lines returns the lines of the node's log that hold all of the parts.
func (n *node) lines(parts ...string) []string {
	var found []string
	for line := range strings.Lines(n.log.String()) {
		holds := true
		for _, part := range parts {
			holds = holds && strings.Contains(line, part)
		}
		if holds {
			found = append(found, line)
		}
	}
	return found
}

// loggedLines waits until the node's log has a line with all of the parts beyond the
// first, and returns those lines. /readyz may know of an event before the log does.
func (n *node) loggedLines(t *testing.T, first int, parts ...string) []string {
	t.Helper()
	servers.Await(t, fmt.Sprintf("the log has a line with %q", parts), func() bool { return len(n.lines(parts...)) > first })
	return n.lines(parts...)[first:]
}

// A Redis that answers without deciding is an outage like one that is unreachable,
// and is logged once at its beginning and once at its end.
func TestRedisErrorsAreOutagesLoggedAtBeginningAndEnd(t *testing.T) {
	set := func(name, value string) func(*testing.T, backends) {
		return func(t *testing.T, s backends) { s.do(t, "config", "set", name, value) }
	}
	// inside returns a connection that stays logged in.
	var connection *redis.Conn
	inside := func(t *testing.T, s backends) *redis.Conn {
		if connection == nil {
			connection = s.commands(t).Conn()
		}
		return connection
	}
	for name, test := range map[string]struct {
		args             []string
		disturb, recover func(*testing.T, backends)
		cause            string
		other            string // the text at its beginning, if that is another
		empty            bool   // whether the counts are lost
	}{
		"OOM": {disturb: set("maxmemory", "1"), recover: set("maxmemory", "0"), cause: "OOM"},
		"READONLY": {
			disturb: func(t *testing.T, s backends) { s.do(t, "replicaof", "127.0.0.1", "1") },
			recover: func(t *testing.T, s backends) { s.do(t, "replicaof", "no", "one") },
			cause:   "READONLY",
		},
		"BUSY": {
			args: []string{"--busy-reply-threshold", "10"},
			disturb: func(t *testing.T, s backends) {
				go s.commands(t).Eval(context.Background(), "while true do end", nil)
			},
			recover: func(t *testing.T, s backends) { s.do(t, "script", "kill") },
			cause:   "BUSY",
		},
		"a new password": {
			disturb: func(t *testing.T, s backends) {
				for _, command := range [][]any{{"config", "set", "requirepass", "x"}, {"client", "kill", "type", "normal", "skipme", "yes"}} {
					if err := inside(t, s).Do(t.Context(), command...).Err(); err != nil {
						t.Fatal(err)
					}
				}
			},
			recover: func(t *testing.T, s backends) {
				if err := inside(t, s).Do(t.Context(), "config", "set", "requirepass", "").Err(); err != nil {
					t.Fatal(err)
				}
			},
			cause: "NOAUTH", other: "each policy", // connections that were cut came first
		},
		"MISCONF": {
			disturb: func(t *testing.T, s backends) {
				s.do(t, "config", "set", "save", "3600 1")
				s.redis.LoseFolder()
				s.do(t, "bgsave")
			},
			recover: set("stop-writes-on-bgsave-error", "no"), cause: "MISCONF",
		},
		"a missing permission": {
			disturb: func(t *testing.T, s backends) { s.do(t, "acl", "setuser", "default", "-fcall") },
			recover: func(t *testing.T, s backends) { s.do(t, "acl", "setuser", "default", "+fcall") },
			cause:   "NOPERM",
		},
		"killed": {
			disturb: func(_ *testing.T, s backends) { s.redis.Kill() },
			recover: func(_ *testing.T, s backends) { s.redis.Restart(true) }, cause: "is unreachable", empty: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := outageNode(t, test.args...)
			l := startLoad(t, n)
			l.awaitMore(false, phaseAnswers)
			// A pause of the whole machine is an outage too, but not the one of this test.
			const begins, ends = "each policy does what its on_failure says", "Redis is reachable again"
			stalls := 0
			servers.Await(t, "no outage has begun yet, and the end of each is logged", func() bool {
				stalls = len(n.lines(ends))
				return n.part("log").OK && len(n.lines("level=ERROR", begins)) == stalls
			})
			test.disturb(t, s)
			l.awaitMore(true, phaseAnswers)
			servers.Await(t, "/readyz reports the outage and stays ready", func() bool {
				_, ready := n.ready()
				return ready && !n.part("log").OK && strings.Contains(n.part("log").Detail, test.cause)
			})
			l.awaitMore(true, 5*phaseAnswers) // several probes must not end it
			began := n.loggedLines(t, stalls, "level=ERROR", begins)
			if len(began) != 1 || !strings.Contains(began[0], cmp.Or(test.other, test.cause)) || !strings.Contains(began[0], s.redis.Addr) {
				t.Errorf("the beginning of the outage is logged as %q, want one line with %q and the server", began, test.cause)
			}
			if ended := n.lines(ends)[stalls:]; len(ended) != 0 {
				t.Errorf("the end of the outage is logged while it lasts: %q", ended)
			}
			test.recover(t, s)
			l.awaitMore(false, phaseAnswers)
			servers.Await(t, "the outage is over in /readyz", func() bool { return n.part("log").OK })
			l.end()
			ended := n.loggedLines(t, stalls, "level=INFO", ends, "outage=", "degraded=")
			if len(ended) != 1 || strings.Contains(ended[0], "degraded=0") {
				t.Errorf("the end of the outage is logged as %q, want one line with its duration and the degraded checks", ended)
			}
			l.wantChargedOnce(test.empty)
		})
	}
}

func TestUnsuitableRedisIsRefusedAtStart(t *testing.T) {
	locked, evicting, plain := servers.DedicatedRedis(t), servers.DedicatedRedis(t, "--maxmemory-policy", "allkeys-lru"), servers.DedicatedRedis(t)
	backends{redis: locked}.do(t, "config", "set", "requirepass", "secret")
	database := servers.Postgres(t).URL
	for name, test := range map[string]struct{ url, want string }{
		"no password":              {"redis://" + locked.Addr, "requires a password"},
		"a wrong password":         {"redis://:hunter2@" + locked.Addr, "refuses the user or the password"},
		"a database too many":      {"redis://" + plain.Addr + "/99", "no database"},
		"no cluster":               {"redis+cluster://" + plain.Addr, "does not belong to a Cluster"},
		"no tls":                   {"rediss://" + plain.Addr + "?dial_timeout=2s", "speaks no TLS"},
		"a redis that evicts logs": {"redis://" + evicting.Addr, "--allow-redis-eviction"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--redis-url", test.url, "--database-url", database}, onFreePorts...)
			line := refused(t, nil, args...)
			if !strings.Contains(line, "--redis-url: ") || !strings.Contains(line, test.want) || strings.Contains(line, "hunter2") {
				t.Errorf("got %q, want %q in it", line, test.want)
			}
		})
	}
}

func TestNodeWaitsForRedisAtStart(t *testing.T) {
	s := backends{servers.DedicatedRedis(t), servers.Postgres(t)}
	s.redis.Kill()
	n := launch(t, []string{"STINT_ADMIN_TOKEN=" + adminToken}, append(s.args(), append(onFreePorts, "--ready-redis-timeout", "1s")...)...)
	n.awaitRunning()
	servers.Await(t, "/readyz reports the outage without a check and is not ready after a second", func() bool {
		_, ready := n.ready()
		return !ready && !n.part("log").OK && strings.Contains(n.part("log").Detail, "not ready")
	})
	s.redis.Restart(true)
	servers.Await(t, "the node is ready", func() bool { _, ready := n.ready(); return ready && n.part("log").OK })
	if d := n.about("ip:203.0.113.7"); !d.Allowed || d.Degraded {
		t.Errorf("the first check: got %+v", d)
	}
}

// A node without checks notices an outage too, and reports evictions of Redis.
func TestRedisEvictionIsReported(t *testing.T) {
	s := backends{servers.DedicatedRedis(t), servers.Postgres(t)}
	n := s.start(t, 1)[0]
	n.awaitReady()
	servers.Await(t, "/readyz knows of no eviction", func() bool { p := n.part("eviction"); return p.OK && p.Detail == "" })
	s.do(t, "config", "set", "maxmemory-policy", "allkeys-random")
	servers.Await(t, "/readyz reports that keys may be evicted now", func() bool {
		return strings.Contains(n.part("eviction").Detail, "may evict") && !n.part("log").OK
	})
	if lines := n.loggedLines(t, 0, "level=ERROR", "not set up as it must be", "allkeys-random"); len(lines) != 1 {
		t.Errorf("the change is logged as %q", lines)
	}
	for i := range 200 {
		s.do(t, "set", fmt.Sprint("filling", i), strings.Repeat("x", 10_000))
	}
	used, err := strconv.Atoi(s.commands(t).InfoMap(t.Context(), "memory").Item("Memory", "used_memory"))
	if err != nil {
		t.Fatal(err)
	}
	s.do(t, "config", "set", "maxmemory", fmt.Sprint(used-500_000))
	s.do(t, "config", "set", "maxmemory", "0")
	servers.Await(t, "/readyz reports the eviction", func() bool {
		_, ready := n.ready()
		return ready && !n.part("eviction").OK && strings.Contains(n.part("eviction").Detail, "evicted")
	})
	if lines := n.loggedLines(t, 0, "level=ERROR", "Redis has evicted keys"); len(lines) != 1 {
		t.Errorf("the eviction is logged as %q", lines)
	}
	metrics := n.must(http.StatusOK, get, "/metrics", "").body
	if text := string(metrics); strings.Contains(text, "stint_redis_evicted_keys_total 0\n") || !strings.Contains(text, "stint_redis_may_evict 1\n") {
		t.Errorf("the metrics do not show the eviction: %s", text)
	}
	allowed := s.start(t, 1, "--allow-redis-eviction", "true")[0]
	servers.Await(t, "a node with the setting starts on it", func() bool { return allowed.part("log").OK })
	if code := allowed.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the node ended with exit code %d, want 0", code)
	}
}

func TestDatabaseOutageIsLoggedAtBeginningAndEnd(t *testing.T) {
	s := backends{servers.Redis(t), servers.DedicatedPostgres(t)}
	n := s.start(t, 1)[0]
	n.awaitReady()
	s.postgres.Kill()
	servers.Await(t, "/readyz reports the outage", func() bool { return !n.part("database").OK })
	n.loggedLines(t, 0, "level=ERROR", "the database is unreachable") // what follows counts as degraded
	for range 3 {
		n.about("token:a")
	}
	s.postgres.Restart(false)
	servers.Await(t, "the database is back", func() bool { return n.part("database").OK })
	if began := n.lines("level=ERROR", "the database is unreachable"); len(began) != 1 {
		t.Errorf("the beginning of the outage is logged as %q, want one line", began)
	}
	if ended := n.loggedLines(t, 0, "the database answers again", "outage=", "degraded=3"); len(ended) != 1 {
		t.Errorf("the end of the outage is logged as %q, want one line", ended)
	}
	if code := n.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the node ended with exit code %d, want 0", code)
	}
	if began := n.lines("the database is unreachable"); len(began) != 1 {
		t.Errorf("the shutdown of the node is logged as an outage: %q", began)
	}
}
