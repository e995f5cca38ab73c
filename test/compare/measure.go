package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// What is measured: so many keys, each of which has used up one rule, a small one
// or a large one.
const (
	keysOnRedis  = 300
	keysInMemory = 3_000
)

var (
	smallRule = rules.Rule{Limit: 60, Window: time.Hour}
	largeRule = rules.Rule{Limit: 5_000, Window: time.Hour}
)

// measure returns the table of what each algorithm keeps and costs, on that Redis
// with so many keys, and in memory.
func measure(ctx context.Context, url string, keys int) (table, error) {
	client, err := redisconn.Connect(url)
	if err != nil {
		return table{}, err
	}
	m := meter{client: client, keys: keys, log: redislog.New(client, redislog.Options{Prefix: prefix(), Timeout: 10 * time.Second})}
	defer m.log.Close()
	t := table{name: "costs", rows: [][]string{{
		"algorithm", "bytes a key on Redis, 60/1h", "5000/1h", "bytes a key in memory, 60/1h", "Redis's processor time for a check, `timestamp_log` = 1",
	}}}
	took := map[string]time.Duration{}
	for range 5 { // the least of several is what others disturbed least
		for id, c := range candidates() {
			m.measures(id, c)
			its, err := m.timeOfChecks(ctx)
			if err != nil {
				return table{}, err
			}
			if least, known := took[c.name]; !known || its < least {
				took[c.name] = its
			}
		}
	}
	for id, c := range candidates() {
		m.measures(id, c)
		small, err := m.bytesAKey(ctx, smallRule, 1)
		if err != nil {
			return table{}, err
		}
		large, err := m.bytesAKey(ctx, largeRule, 100)
		if err != nil {
			return table{}, err
		}
		t.rows = append(t.rows, []string{
			c.name, strconv.FormatInt(small, 10), strconv.FormatInt(large, 10), strconv.FormatInt(m.bytesInMemory(), 10),
			fmt.Sprintf("%.1f", float64(took[c.name])/float64(took[candidates()[0].name])),
		})
	}
	return t, nil
}

// meter measures one policy at a time.
type meter struct {
	client redis.UniversalClient
	log    *redislog.Log
	keys   int
	candidate
	policy rules.Policy
}

// measures sets the candidate that is measured next.
func (m *meter) measures(id int, c candidate) {
	m.candidate, m.policy.ID, m.policy.Algorithm = c, int64(id+1), c.Name
}

// with sets the rule under which is measured, and forgets what was counted.
func (m *meter) with(rule rules.Rule) {
	m.policy.Rules, m.policy.Options = rules.Stack{rule}, m.optionsUnder(rule.Limit)
	m.policy.Version++
	m.policy.Generation++
}

// fill asks for each of n keys rounds times and returns an error where a request
// could not be answered.
func (m *meter) fill(ctx context.Context, log timestamplog.Log, n, cost, rounds int) error {
	requests, results := make([]timestamplog.Request, n), make([]timestamplog.Result, n)
	for i := range requests {
		requests[i] = timestamplog.RequestOf(&m.policy, fmt.Sprintf("ip:2001:db8:0:%x::/64", i), cost)
	}
	for range rounds {
		log.Decide(ctx, requests, results)
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	return nil
}

// bytesAKey returns what Redis says that a key takes which has used up rule, its
// name included, by requests of that cost.
func (m *meter) bytesAKey(ctx context.Context, rule rules.Rule, cost int) (int64, error) {
	m.with(rule)
	if err := m.fill(ctx, m.log, m.keys, cost, rule.Limit/cost); err != nil {
		return 0, err
	}
	bytes, keys, err := m.sweep(ctx)
	if err != nil {
		return 0, err
	}
	if keys == 0 {
		return 0, fmt.Errorf("nothing was kept by %s", m.candidate.name)
	}
	return (bytes + keys/2) / keys, nil
}

// sweep drops all that was kept on Redis, and returns what it took.
func (m *meter) sweep(ctx context.Context) (bytes, keys int64, err error) {
	found := m.client.Scan(ctx, 0, prefix()+":*", 1000).Iterator()
	for found.Next(ctx) {
		its, err := m.client.MemoryUsage(ctx, found.Val(), 0).Result()
		if err != nil {
			return 0, 0, err
		}
		bytes, keys = bytes+its, keys+1
		if err := m.client.Unlink(ctx, found.Val()).Err(); err != nil {
			return 0, 0, err
		}
	}
	return bytes, keys, found.Err()
}

// prefix begins the names of all keys of this run.
func prefix() string { return fmt.Sprintf("stint-compare-%d", os.Getpid()) }

var processorTime = regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`)

// timeOfChecks returns Redis's own processor time for as many checks as fill small
// keys and then are refused by them, half of them each.
func (m *meter) timeOfChecks(ctx context.Context) (time.Duration, error) {
	m.with(smallRule)
	before, err := m.spent(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.fill(ctx, m.log, m.keys, 1, 2*smallRule.Limit); err != nil {
		return 0, err
	}
	after, err := m.spent(ctx)
	if err != nil {
		return 0, err
	}
	_, _, err = m.sweep(ctx)
	return after - before, err
}

func (m *meter) spent(ctx context.Context) (time.Duration, error) {
	info, err := m.client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var total float64 // seconds
	for _, found := range processorTime.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, err
		}
		total += seconds
	}
	if total == 0 {
		return 0, errors.New("the Redis does not say how much processor time it used")
	}
	return time.Duration(total * float64(time.Second)), nil
}

// bytesInMemory returns what a key takes in memory which has used up a small rule.
func (m *meter) bytesInMemory() int64 {
	m.with(smallRule)
	log := memlog.New(memlog.Options{})
	before := heap()
	_ = m.fill(background, log, keysInMemory, 1, smallRule.Limit) // memory is always in reach
	after := heap()
	runtime.KeepAlive(log)
	return (after - before) / keysInMemory
}

// heap returns the bytes of what is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
