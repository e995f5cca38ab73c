// Package libraries measures Stint's package limit beside golang.org/x/time/rate and redis_rate, as libraries. The benchmark of
// test/bench runs it; alone: go test -C tools/libraries -run "^$" -bench . -args -redis ADDRESS. It is a module of its own, so that neither enters Stint.
package libraries

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/stint-dev/stint/limit"
)

var redisAddress = flag.String("redis", "", "the address of a Redis that may be filled")

const (
	manyKeys = 100_000
	callers  = 64
	rounds   = 7
	each     = 500 * time.Millisecond
)

// perSecond returns how many calls a second the callers make for a while.
func perSecond(callers int, call func(key string)) float64 {
	var total atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			n := int64(0)
			for time.Since(began) < each {
				for range 16 {
					call(keys[rand.IntN(manyKeys)])
					n++
				}
			}
			total.Add(n)
		})
	}
	all.Wait()
	return float64(total.Load()) / time.Since(began).Seconds()
}

var keys = func() (all [manyKeys]string) {
	for i := range all {
		all[i] = "user:" + strconv.Itoa(i)
	}
	return all
}()

// alternately returns the medians of both, and of the ratio of the first to the second.
func alternately(one, other func() float64) (a, b, ratio float64) {
	var as, bs, ratios [rounds]float64
	one()
	other()
	for i := range rounds {
		as[i], bs[i] = one(), other()
		ratios[i] = as[i] / bs[i]
	}
	return median(as), median(bs), median(ratios)
}

func median(all [rounds]float64) float64 {
	for i := range all {
		for j := i; j > 0 && all[j] < all[j-1]; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all[rounds/2]
}

func must(b *testing.B, l *limit.Limiter, err error) func(key string) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	return func(key string) {
		if _, err := l.Allow(context.Background(), key); err != nil {
			panic(err)
		}
	}
}

// BenchmarkMemory: one rule for each of many keys, beside a map of limiters of x/time/rate behind a lock.
func BenchmarkMemory(b *testing.B) {
	l, err := limit.New(limit.Memory(), "bench", "1000/1m")
	ours := must(b, l, err)
	var mu sync.Mutex
	limiters := map[string]*rate.Limiter{}
	theirs := func(key string) {
		mu.Lock()
		l := limiters[key]
		if l == nil {
			l = rate.NewLimiter(rate.Every(time.Minute/1000), 1000)
			limiters[key] = l
		}
		mu.Unlock()
		l.Allow()
	}
	report(b, "in memory, one rule, one caller", 1, ours, theirs)
	report(b, "in memory, one rule, two callers", 2, ours, theirs)
}

// BenchmarkRedis: the stack of four rules, which redis_rate asks in one pipeline of four calls.
func BenchmarkRedis(b *testing.B) {
	if *redisAddress == "" {
		b.Skip("-redis is not given")
	}
	client := redis.NewClient(&redis.Options{Addr: *redisAddress, PoolSize: callers, ContextTimeoutEnabled: true})
	defer client.Close()
	store := limit.Redis(client, limit.RedisOptions{Timeout: time.Minute})
	defer store.Close()
	l, err := limit.New(store, "bench", "1/1s", "20/1m", "200/1h", "800/1d")
	ours := must(b, l, err)
	limiter := redis_rate.NewLimiter(client)
	day := redis_rate.Limit{Rate: 800, Burst: 800, Period: 24 * time.Hour}
	rules := []redis_rate.Limit{redis_rate.PerSecond(1), redis_rate.PerMinute(20), redis_rate.PerHour(200), day}
	theirs := func(key string) {
		for i, rule := range rules { // it stops at the first that refuses
			result, err := limiter.Allow(context.Background(), strconv.Itoa(i)+key, rule)
			if err != nil {
				panic(err)
			}
			if result.Allowed == 0 {
				return
			}
		}
	}
	report(b, "on Redis, four rules, 64 callers", callers, ours, theirs)
}

func report(b *testing.B, name string, callers int, ours, theirs func(string)) {
	a, o, ratio := alternately(func() float64 { return perSecond(callers, ours) }, func() float64 { return perSecond(callers, theirs) })
	fmt.Printf("%s|%.0f|%.0f|%.2f\n", name, a, o, ratio)
	b.ReportMetric(ratio, "ratio")
}
