package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// byKind measures what else a log is asked than whether a timestamp log allows
// one request now: other algorithms, IDs, reservations, several keys at once.
func byKind(b *testing.B, r *report) {
	explained := fmt.Sprintf(" %d keys in random order, 4 rules, no detail; a share is the rate as a part of the plain check's, measured just before, the median of %d runs of %s. Several keys count as one check.",
		kindKeys, kindRuns, kindRunTime)
	r.begin("Every algorithm, IDs, reservations and several keys, in memory", "The log in memory, one goroutine."+explained)
	memory := memlog.New(memlog.Options{})
	defer memory.Close()
	kinds{b: b, r: r, log: memory, callers: 1}.measure()

	r.begin("Every algorithm, IDs, reservations and several keys, on Redis", "The log in Redis, 64 callers, and processor time of redis-server."+explained)
	server := servers.DedicatedRedis(b)
	shared, err := redislog.Open(server.URL, redislog.Options{Timeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer shared.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	kinds{b: b, r: r, log: shared, callers: 64, redis: int(redisProcess(b, client))}.measure()
}

const (
	kindKeys    = 50_000
	kindRuns    = 3
	kindRunTime = 200 * time.Millisecond
	// fewReservationKeys have so many reservations ahead of them that few requests come when
	// none is.
	fewReservationKeys = 2_000
)

// Stacks that allow everything that is asked here, one request a day, and one a
// second and all who wait for it.
var (
	kindAllow  = []string{"1000/s", "10000/m", "100000/h", "100000/d"}
	kindRefuse = []string{"1/s", "1/m", "1/h", "1/d"}
	kindQueue  = []string{"1/s", "10000/m", "100000/h", "100000/d"}
)

// kind is one way to ask a log.
type kind struct {
	what     string
	requests []timestamplog.Request // one for each key
	filled   int                    // how often each key is asked about before; 0 for once
	together int                    // keys in one question; 0 for a check
	named    bool                   // each under an ID of its own
	wanted   func(timestamplog.Result) bool
}

func isAllowed(r timestamplog.Result) bool { return r.Allowed }
func isRefused(r timestamplog.Result) bool { return !r.Allowed }
func isAhead(r timestamplog.Result) bool   { return r.Allowed && r.ReservedAt > r.Now }

// kinds measures on one log.
type kinds struct {
	b       *testing.B
	r       *report
	log     timestamplog.Log
	callers int
	redis   int // its process; 0 for none
}

func (k kinds) measure() {
	k.b.Helper()
	id := int64(1)
	of := func(keys int, algorithm string, stack []string) []timestamplog.Request {
		id++
		return requestsOf(k.b, id, keys, algorithm, stack)
	}
	plain := kind{requests: of(kindKeys, algorithms.TimestampLog, kindAllow), wanted: isAllowed}
	k.fill(plain)
	for _, a := range algorithms.All() {
		k.compare(plain, kind{what: a.Name + ", allowed", requests: of(kindKeys, a.Name, kindAllow), wanted: isAllowed})
		k.compare(plain, kind{what: a.Name + ", refused", requests: of(kindKeys, a.Name, kindRefuse), wanted: isRefused})
	}
	k.compare(plain, kind{what: "under an ID", requests: of(kindKeys, algorithms.TimestampLog, kindAllow), named: true, wanted: isAllowed})
	waits := kind{what: "a reservation within its max_wait", requests: of(fewReservationKeys, algorithms.TimestampLog, kindQueue), filled: 5, named: true, wanted: isAhead}
	for i := range waits.requests {
		waits.requests[i].MaxWait = timestamplog.MaxWait
	}
	k.compare(plain, waits)
	for _, n := range []int{2, 8} {
		k.compare(plain, kind{what: fmt.Sprintf("%d keys at once", n), requests: of(kindKeys, algorithms.TimestampLog, kindAllow), together: n, wanted: isAllowed})
	}
}

func requestsOf(b *testing.B, id int64, number int, algorithm string, texts []string) []timestamplog.Request {
	b.Helper()
	stack, err := rules.ParseStack(texts)
	if err != nil {
		b.Fatal(err)
	}
	p := &rules.Policy{ID: id, Version: 1, Generation: 1, Rules: stack, Mode: rules.Enforce, Algorithm: algorithm}
	requests := make([]timestamplog.Request, number)
	for i := range requests {
		requests[i] = timestamplog.RequestOf(p, fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255), 1)
	}
	return requests
}

var lastID atomic.Int64

func newID() string { return "bench-" + strconv.FormatInt(1e15+lastID.Add(1), 10) }

// fill asks about each key, so that none is new; where reservations are asked for, some
// then lie ahead.
func (k kinds) fill(one kind) {
	k.b.Helper()
	const batch = 1000
	results := make([]timestamplog.Result, batch)
	for from := 0; from < len(one.requests); from += batch {
		requests := append([]timestamplog.Request(nil), one.requests[from:from+batch]...)
		for range max(1, one.filled) {
			for i := range requests {
				if one.named {
					requests[i].ID = newID()
				}
			}
			k.log.Decide(k.b.Context(), requests, results)
			for _, result := range results {
				if result.Err != nil {
					k.b.Fatal(result.Err)
				}
			}
		}
	}
}

// ask asks about random keys and reports whether the answer was the wanted one.
func (one kind) ask(ctx context.Context, log timestamplog.Log, random *rand.Rand, results []timestamplog.Result) (bool, error) {
	if one.together > 0 {
		from := random.IntN(len(one.requests) - one.together)
		err := log.DecideAll(ctx, one.requests[from:from+one.together], results[:one.together])
		return one.wanted(results[0]), err
	}
	q := [1]timestamplog.Request{one.requests[random.IntN(len(one.requests))]}
	if one.named {
		q[0].ID = newID()
	}
	log.Decide(ctx, q[:], results[:1])
	return one.wanted(results[0]), results[0].Err
}

// runOf asks for a while and returns the checks per second and Redis's
// processor time for all of them.
func (k kinds) runOf(one kind) (checks int64, rate float64, used time.Duration) {
	k.b.Helper()
	var asked, wanted atomic.Int64
	var group sync.WaitGroup
	var before time.Duration
	if k.redis > 0 {
		before = processorTime(k.b, k.redis)
	}
	began := time.Now()
	for caller := range k.callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), uint64(caller)))
			results := make([]timestamplog.Result, timestamplog.MaxCombined)
			for time.Since(began) < kindRunTime {
				as, err := one.ask(k.b.Context(), k.log, random, results)
				if err != nil {
					k.b.Error(err)
					return
				}
				asked.Add(1)
				if as {
					wanted.Add(1)
				}
			}
		})
	}
	group.Wait()
	rate = float64(asked.Load()) / time.Since(began).Seconds()
	if k.redis > 0 {
		used = processorTime(k.b, k.redis) - before
	}
	if float64(wanted.Load()) < 0.9*float64(asked.Load()) {
		k.b.Fatalf("%q: %d of %d answers were as wanted, want at least 90 %%", one.what, wanted.Load(), asked.Load())
	}
	return asked.Load(), rate, used
}

// compare adds the row of one kind beside the plain check.
func (k kinds) compare(plain, one kind) {
	k.b.Helper()
	k.fill(one)
	var shares, rates []float64
	var plainChecks, checks int64
	var plainUsed, used time.Duration
	for range kindRuns {
		n, plainRate, its := k.runOf(plain)
		plainChecks, plainUsed = plainChecks+n, plainUsed+its
		n, rate, its := k.runOf(one)
		checks, used = checks+n, used+its
		shares, rates = append(shares, rate/plainRate), append(rates, rate)
	}
	measured := fmt.Sprintf("%.2f (%.0f ns)", median(shares), 1e9/median(rates))
	if k.redis > 0 {
		measured = fmt.Sprintf("%.2f (%.0fk/s; %.1f µs of Redis's processor time, the plain check's %.1f)", median(shares), median(rates)/1e3,
			micros(used)/float64(checks), micros(plainUsed)/float64(plainChecks))
	}
	k.r.add(one.what, measured)
}
