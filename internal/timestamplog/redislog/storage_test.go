package redislog_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// A log of few entries is stored with room for some more, and a long one in blocks. Neither may
// be much larger than 4 bytes an entry.
func TestLogTakesLittleMoreThanFourBytesAnEntry(t *testing.T) {
	server := servers.Redis(t)
	log, client := open(t, server, redislog.Options{}), connect(t, server)
	for _, stack := range []string{"10/31d", "64/1d", "800/31d", "5000/1d"} {
		p := policy(t, 1, stack)
		name := redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(p, address))
		for n := 1; n <= p.Rules[0].Limit; n++ {
			if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
				t.Fatalf("%s: got %+v for request %d, want it allowed", stack, r, n)
			}
			size, most := client.StrLen(t.Context(), name).Val(), int64(28+5*n+4*128)
			if n <= 64 {
				most = int64(28 + 5*n + 16)
			}
			if size < int64(28+4*n) || size > most {
				t.Fatalf("%s: %d entries take %d bytes, want %d at most", stack, n, size, most)
			}
		}
		if _, err := log.Reset(t.Context(), timestamplog.LogIDOf(p, address)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogShrinksAfterABurst sends few requests for a key after a burst: neither its log nor the
// part of it that a check reads may stay large, even if requests are refused and not logged.
func TestLogShrinksAfterABurst(t *testing.T) {
	server := servers.Redis(t)
	clock := logtest.NewClock()
	log, client := open(t, server, redislog.Options{Clock: clock.Now}), connect(t, server)
	p := policy(t, 1, "30000/1h")
	name := redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(p, address))
	for range 29 {
		if r := ask(t.Context(), log, p, address, 1000); !r.Allowed {
			t.Fatalf("got %+v", r)
		}
	}
	clock.Advance(time.Hour - time.Second)
	for range 99 {
		ask(t.Context(), log, p, address, 1)
	}
	clock.Advance(time.Minute) // the entries of the burst have left the window
	read := func() int64 {
		text, err := client.Info(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, number, _ := strings.Cut(text, "total_net_output_bytes:")
		number, _, _ = strings.Cut(number, "\r")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	large, before := client.StrLen(t.Context(), name).Val(), read()
	q := timestamplog.RequestOf(p, address, 1000)
	q.Peek, q.Detail = true, true
	results := make([]timestamplog.Result, 1)
	log.Decide(t.Context(), []timestamplog.Request{q}, results)
	if r := results[0]; r.Err != nil || len(r.States) != 1 || r.States[0].Remaining != 30000-99 {
		t.Fatalf("got %+v", r)
	}
	if sent := read() - before; large < 100_000 || sent > 20_000 {
		t.Errorf("of %d bytes Redis has sent %d", large, sent)
	}
	ask(t.Context(), log, p, address, 1)
	if size := client.StrLen(t.Context(), name).Val(); size > 1500 {
		t.Errorf("100 entries take %d bytes", size)
	}
	times, _, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, address), 1000)
	if err != nil || len(times) != 100 {
		t.Errorf("the log holds %d entries, %v", len(times), err)
	}
}

func TestLogExpiresWhenItsNewestEntryHasLeftTheLongestWindow(t *testing.T) {
	server := servers.Redis(t)
	log, client := open(t, server, redislog.Options{}), connect(t, server)
	p := policy(t, 1, "5/10ms", "7/h")
	name := redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(p, address))
	r := ask(t.Context(), log, p, address, 2)
	at, err := client.PExpireTime(t.Context(), name).Result()
	// Redis may keep the log for another eighth of its window, so that not every push changes the
	// expiry.
	if late := at.Milliseconds() - r.Now - 3_600_000; err != nil || late < 0 || late > 3_600_000/8 {
		t.Errorf("the log is dropped at %d, %v, want an hour after %d and at most an eighth more", at.Milliseconds(), err, r.Now)
	}
	short := policy(t, 2, "5/10ms")
	ask(t.Context(), log, short, address, 1)
	name = redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(short, address))
	servers.Await(t, "an idle log is gone", func() bool { return client.Exists(t.Context(), name).Val() == 0 })
}

func TestNoKeyChoosesAHashSlot(t *testing.T) {
	for _, key := range []string{"token:a", "token:evil{user}", "token:{user}", "token:{}{user}"} {
		name := redislog.LogName("stint", redislog.ShardOf(key), timestamplog.LogID{Policy: 1, Generation: 1, Key: key})
		begin := fmt.Sprintf("stint:{%d}:1.1:", redislog.ShardOf(key))
		if !strings.HasPrefix(name, begin) || strings.Contains(begin, "user") {
			t.Errorf("the log of %q is named %q, want it to begin with %q", key, name, begin)
		}
	}
}

func TestShardsAreUsedEvenly(t *testing.T) {
	count := make([]int, redislog.Shards)
	const keys = 256 * 400
	for i := range keys {
		count[redislog.ShardOf(fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255))]++
	}
	for shard, n := range count {
		if n < 280 || n > 520 {
			t.Errorf("shard %d has %d keys, want about 400", shard, n)
		}
	}
}

// The design's bound: 100,000 logs of 60 entries in 64 MB.
func TestAHundredThousandLogsOfSixtyEntriesFitIn64MB(t *testing.T) {
	server := servers.DedicatedRedis(t)
	server.Prefix = redislog.DefaultPrefix // its length counts
	log := open(t, server, redislog.Options{})
	p := policy(t, 1, "100/s", "800/d")
	used := func() int64 {
		h, err := log.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h.Nodes[0].UsedMemory
	}
	servers.Await(t, "a fresh Redis answers", func() bool { return answers(log, p) })
	before := used()
	const logs, each, batch = 100_000, 60, 1000
	for from := 0; from < logs; from += batch {
		fillLogs(t, log, p, from, batch, each)
	}
	bytes := used() - before
	t.Logf("%d logs of %d entries: %.1f MB, %.2f bytes an entry", logs, each, float64(bytes)/1e6, float64(bytes)/logs/each)
	if bytes > 64_000_000 {
		t.Errorf("the logs take %d bytes, want at most 64,000,000", bytes)
	}
}

// fillLogs logs each entries for every one of keys keys, the first of which has the number from.
func fillLogs(t testing.TB, log *redislog.Log, p *rules.Policy, from, keys, each int) {
	t.Helper()
	requests := make([]timestamplog.Request, keys)
	for i := range requests {
		n := from + i
		requests[i] = timestamplog.RequestOf(p, fmt.Sprintf("ip:10.%d.%d.%d", n>>16, n>>8&255, n&255), each)
	}
	results := make([]timestamplog.Result, keys)
	log.Decide(t.Context(), requests, results)
	for _, r := range results {
		if !r.Allowed {
			t.Fatalf("got %+v, want it allowed", r)
		}
	}
}

// Memory that Redis uses for a key, including its name.
func TestMemoryOfAKeyUnderEachAlgorithm(t *testing.T) {
	server := servers.Redis(t)
	admin := connect(t, server)
	bounds := map[string]int64{
		"timestamp_log": 480, "sorted_set_log": 2500, "amount_log": 1700, "fixed_window": 180, "sliding_window": 180, "sliding_buckets": 320,
		"token_bucket": 200, "leaky_bucket": 200, "gcra": 180,
	}
	for i, a := range algorithms.All() {
		t.Run(a.Name, func(t *testing.T) {
			clock := logtest.NewClock()
			log := open(t, server, redislog.Options{Clock: clock.Now})
			p := policy(t, int64(10+i), "100/1m", "800/1h")
			p.Algorithm = a.Name
			for range 60 {
				clock.Advance(500 * time.Millisecond)
				if r := ask(t.Context(), log, p, address, 1); !r.Allowed {
					t.Fatalf("got %+v, want it allowed", r)
				}
			}
			bytes, err := admin.MemoryUsage(t.Context(), redislog.LogName(server.Prefix, redislog.ShardOf(address), timestamplog.LogIDOf(p, address)), 0).Result()
			must(t, err)
			t.Logf("%d bytes after 60 requests", bytes)
			if bytes > bounds[a.Name] {
				t.Errorf("60 requests under two rules take %d bytes, want at most %d", bytes, bounds[a.Name])
			}
		})
	}
}
