package redislog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// check opens a URL and returns the error of Check.
func check(t *testing.T, url string, options redislog.CheckOptions) (redislog.Health, error) {
	t.Helper()
	log, err := redislog.Open(url, redislog.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	return log.Check(t.Context(), options)
}

// wantConfigError checks that err mentions a mistake by part of its text, and no secret.
func wantConfigError(t *testing.T, err error, part string) {
	t.Helper()
	var wrong *redisconn.ConfigError
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want a ConfigError that says %q", err, part)
	}
	if text := err.Error(); !strings.Contains(text, part) || strings.Contains(text, "secret") || strings.Contains(text, "\n") {
		t.Errorf("got %q, want one line with %q and without the password", text, part)
	}
}

func TestCheckRejectsMistakesInTheURLAndTheServer(t *testing.T) {
	server, locked, member := servers.DedicatedRedis(t), servers.DedicatedRedis(t), servers.ClusterOfOne(t)
	must(t, connect(t, locked).ConfigSet(t.Context(), "requirepass", "x").Err())
	watching := servers.Sentinels(t, "m", server)[0]
	for name, test := range map[string]struct{ url, want string }{
		"a wrong password":               {"redis://:secret@" + locked.Addr, "user or the password"},
		"a wrong password, in a cluster": {"redis+cluster://:secret@" + locked.Addr, "user or the password"},
		"a cluster":                      {"redis://" + member.Addr, "redis+cluster://"},
		"a sentinel":                     {"redis://" + watching, "Sentinel"},
		"tls where there is none":        {"rediss://" + server.Addr + "?dial_timeout=2s", "speaks no TLS; write redis://"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(t, test.url, redislog.CheckOptions{})
			wantConfigError(t, err, test.want)
		})
	}
}

func TestCheckRejectsServersThatCannotHoldLogs(t *testing.T) {
	t.Run("it evicts", func(t *testing.T) {
		for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
			server := servers.DedicatedRedis(t, "--maxmemory-policy", policy)
			_, err := check(t, server.URL, redislog.CheckOptions{})
			wantConfigError(t, err, "maxmemory-policy "+policy)
			h, err := check(t, server.URL, redislog.CheckOptions{AllowEviction: true})
			if err != nil || len(h.Nodes) != 1 || !h.Nodes[0].MayEvict() {
				t.Errorf("%s where that is allowed: got %+v, %v", policy, h, err)
			}
		}
	})
	t.Run("it has no functions", func(t *testing.T) {
		_, err := check(t, servers.DedicatedRedis(t, "--rename-command", "FUNCTION", "").URL, redislog.CheckOptions{})
		wantConfigError(t, err, "not Redis 7 or newer")
	})
	t.Run("it is too old", func(t *testing.T) {
		for version, old := range map[string]bool{"6.2.14": true, "2.8": true, "7.0.0": false, "10.1": false, "": false} {
			if n := (redislog.NodeHealth{Version: version}); redislog.IsTooOld(&n) != old {
				t.Errorf("version %q: too old is %v", version, !old)
			}
		}
	})
}

func TestCheckRejectsUsersWithTooFewRightsButNotThoseWithoutInfo(t *testing.T) {
	server := servers.DedicatedRedis(t, "--maxmemory-policy", "allkeys-lru")
	admin := connect(t, server)
	url := userURL(server)
	info := admin.InfoMap(t.Context(), "server")
	version := info.Item("Server", "redis_version")
	if info.Item("Server", "server_name") == "valkey" {
		version = "" // in HELLO, Valkey has a version of its own
	}
	for _, right := range []string{"+fcall", "+function|load", "+set", "+time", "~stint:*"} {
		t.Run("without "+right, func(t *testing.T) {
			giveRights(t, admin, right)
			_ = admin.FunctionFlush(t.Context()).Err() // otherwise nobody needs to load
			_, err := check(t, url, redislog.CheckOptions{AllowEviction: true})
			wantConfigError(t, err, "too few rights")
		})
	}
	for _, without := range [][]string{{"+info"}, {"+info", "+hello"}} {
		giveRights(t, admin, without...)
		h, err := check(t, url, redislog.CheckOptions{})
		if err != nil || len(h.Nodes) != 1 || h.Nodes[0].NoInfo == "" {
			t.Fatalf("without %v: got %+v, %v", without, h, err)
		}
		if len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "INFO") {
			t.Errorf("without %v the warnings are %q", without, h.Warnings)
		}
		if n := h.Nodes[0]; len(without) == 1 && (n.Mode != "standalone" || n.Role != "master" || n.Version != version) {
			t.Errorf("by HELLO: %+v", n)
		}
	}
	giveRights(t, admin)
	_, err := check(t, url, redislog.CheckOptions{})
	wantConfigError(t, err, "allkeys-lru") // although CONFIG is not allowed
}

func TestCheckTreatsTemporaryFailuresAsOutages(t *testing.T) {
	address := servers.FreeAddress(t)
	full, replica := servers.DedicatedRedis(t), servers.DedicatedRedis(t, "--replicaof", "127.0.0.1", "1")
	must(t, connect(t, full).ConfigSet(t.Context(), "maxmemory", "1").Err())
	unsaved := servers.DedicatedRedis(t)
	failToSave(t, unsaved)
	for name, url := range map[string]string{
		"nothing listens":           "redis://" + address,
		"nothing listens, cluster":  "redis+cluster://" + address,
		"nothing listens, sentinel": "redis+sentinel://" + address + "?master_name=m",
		"nothing listens, tls":      "rediss://" + address,
		"a name that is not known":  "redis://redis.invalid",
		"it is full":                full.URL,
		"it is a replica":           replica.URL,
		"it cannot save":            unsaved.URL,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(t, url, redislog.CheckOptions{})
			if wrong := (*redisconn.ConfigError)(nil); errors.As(err, &wrong) || !errors.Is(err, timestamplog.ErrUnreachable) {
				t.Errorf("got %v, want an outage", err)
			}
		})
	}
}

// failToSave makes a server refuse writes because it could not save (MISCONF).
func failToSave(t *testing.T, server *servers.RedisServer) {
	t.Helper()
	admin := connect(t, server)
	must(t, admin.ConfigSet(t.Context(), "save", "3600 1").Err())
	must(t, admin.Set(t.Context(), "something", "x", 0).Err())
	server.LoseFolder()
	_ = admin.Do(t.Context(), "bgsave").Err()
	servers.Await(t, "it cannot save", func() bool {
		return strings.Contains(admin.Set(t.Context(), "something", "y", 0).Val()+admin.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

func TestCheckLeavesNothingBehind(t *testing.T) {
	for _, server := range []*servers.RedisServer{servers.DedicatedRedis(t), servers.ClusterOfOne(t)} {
		if _, err := check(t, server.URL, redislog.CheckOptions{}); err != nil {
			t.Fatal(err)
		}
		admin := redis.NewClient(&redis.Options{Addr: server.Addr})
		defer admin.Close()
		servers.Await(t, "the log of the check is gone", func() bool { return admin.DBSize(t.Context()).Val() == 0 })
	}
}
