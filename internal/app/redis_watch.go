package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

const (
	// watchInterval is how often Redis is examined, in addition to the checks.
	watchInterval = 5 * time.Second
	// startCheckTimeout bounds how long a start waits for Redis.
	startCheckTimeout = 15 * time.Second
	// evictionAlertInterval is the minimum time between two notifications of evictions.
	// evictionShown is how long health shows evictions after the last one.
	evictionAlertInterval = 10 * time.Minute
	evictionShown         = 24 * time.Hour
)

// redisWatch observes what checks do not notice: whether Redis is configured to hold logs,
// whether it evicts them, and outages without checks.
type redisWatch struct {
	redis   *redislog.Log
	options redislog.CheckOptions
	log     *slog.Logger
	node    string
	notify  func(context.Context, ...notify.Notification)
	now     func() time.Time

	mu      sync.Mutex
	started bool   // start has returned
	passed  bool   // a check of the servers has succeeded
	problem string // what an operator must change, "" if nothing
	since   time.Time

	servers  map[string]int64 // evicted keys by run id of a server
	observed time.Time        // when servers were last observed
	evicted  int64            // since this node started
	last     time.Time        // when evictions were last seen
	notified time.Time        // when people were last notified
	pending  int64            // evicted since notified
	unread   []string         // servers whose INFO cannot be read
	mayEvict []string         // servers that may evict
}

// redisState is what a redisWatch has observed.
type redisState struct {
	Passed   bool
	Problem  string
	Since    time.Time // when the problem began
	Evicted  int64     // keys evicted since this node started
	Evicting bool      // some were evicted within evictionShown
	Last     time.Time // when evictions were last seen
	MayEvict []string  // servers that may evict
	Unread   []string  // servers whose INFO cannot be read
}

// start checks Redis before the node listens. Its error says what an operator must change. If
// Redis is unreachable, start returns nil and run checks again.
func (w *redisWatch) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startCheckTimeout)
	defer cancel()
	err := w.check(ctx)
	w.mu.Lock()
	w.started = true
	w.mu.Unlock()
	if wrong := (*redisconn.ConfigError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("--redis-url: %s", oneLine(wrong))
	}
	if err == nil {
		return nil
	}
	w.redis.Probe(ctx) // logs the outage
	if w.redis.Unreachable().IsZero() {
		w.log.Warn("Redis cannot be checked yet; this node tries again", "error", redislog.Describe(err))
	}
	return nil
}

// run examines Redis until ctx ends.
func (w *redisWatch) run(ctx context.Context) {
	every(watchInterval, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, startCheckTimeout)
		defer cancel()
		w.redis.Probe(ctx)
		if len(w.redis.Outages()) > 0 && w.state().Passed {
			// The outage has the reason. The other servers are still examined.
			health, _ := w.redis.Health(ctx)
			w.observe(ctx, health)
			return
		}
		_ = w.check(ctx) // recorded in the state
	})(ctx)
}

// check tests whether Redis can hold logs, and records the result.
func (w *redisWatch) check(ctx context.Context) error {
	health, err := w.redis.Check(ctx, w.options)
	w.observe(ctx, health)
	w.mu.Lock()
	defer w.mu.Unlock()
	var wrong *redisconn.ConfigError
	switch {
	case err == nil:
		if !w.passed {
			for _, warning := range health.Warnings {
				w.log.Warn(warning)
			}
		}
		if w.problem != "" {
			w.log.Info("Redis is set up as it should be", "since", w.now().Sub(w.since).Round(time.Second))
		}
		w.passed, w.problem, w.since = true, "", time.Time{}
	case errors.As(err, &wrong):
		problem := oneLine(wrong)
		if w.problem == "" {
			w.since = w.now()
		}
		if problem != w.problem && w.started { // before that, start returns the problem as its error
			w.log.Error("Redis is not set up as it must be", "problem", problem)
		}
		w.problem = problem
	}
	return err
}

// observe counts the keys that the servers have evicted, and notifies people.
func (w *redisWatch) observe(ctx context.Context, h redislog.Health) {
	if n := w.count(h); n > 0 {
		text := fmt.Sprintf("%d keys were deleted since the memory was full. Logs may be among them: who had them may do up to the whole limit once more. Give Redis more memory and set maxmemory-policy to noeviction.", n)
		w.log.Error("Redis has evicted keys; limits may have been lifted", "keys", n)
		w.notify(ctx, notify.Notification{Kind: notify.RedisEviction, At: w.now(), Subject: "Redis has evicted keys, so limits may have been lifted",
			Text: text, Facts: map[string]string{"node": w.node, "keys": fmt.Sprint(n)}})
	}
}

// count adds up the evicted keys. It returns the number of keys to notify people of now, 0 for
// none.
func (w *redisWatch) count(h redislog.Health) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if len(h.Nodes) > 0 {
		w.unread, w.mayEvict = nil, nil
	}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.MayEvict() {
			w.mayEvict = append(w.mayEvict, n.Addr)
		}
		if n.NoInfo != "" {
			w.unread = append(w.unread, n.Addr)
			continue
		}
		if evicted := w.evictedBy(n, now); evicted > 0 {
			w.evicted += evicted
			w.pending += evicted
			w.last = now
		}
	}
	if len(h.Nodes) > 0 {
		w.observed = now
	}
	if w.pending == 0 || !w.notified.IsZero() && now.Sub(w.notified) < evictionAlertInterval {
		return 0
	}
	keys := w.pending
	w.pending, w.notified = 0, now
	return keys
}

// evictedBy returns how many keys a server has evicted since it was last observed.
func (w *redisWatch) evictedBy(n *redislog.NodeHealth, now time.Time) int64 {
	run := n.RunID
	if run == "" {
		run = n.Addr
	}
	before, known := w.servers[run]
	if w.servers == nil {
		w.servers = map[string]int64{}
	}
	w.servers[run] = n.EvictedKeys
	switch {
	case known && n.EvictedKeys >= before:
		return n.EvictedKeys - before
	case known: // its statistics were reset
		return n.EvictedKeys
	case !w.observed.IsZero() && now.Add(-n.Uptime).After(w.observed): // the server was started since
		return n.EvictedKeys
	case n.EvictedKeys > 0:
		w.log.Warn("Redis had evicted keys before this node observed it; limits may have been lifted", "server", n.Addr, "keys", n.EvictedKeys)
	}
	return 0
}

// state returns what has been observed.
func (w *redisWatch) state() redisState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return redisState{
		Passed: w.passed, Problem: w.problem, Since: w.since, Evicted: w.evicted, Last: w.last,
		Evicting: !w.last.IsZero() && w.now().Sub(w.last) < evictionShown,
		MayEvict: slices.Clone(w.mayEvict), Unread: slices.Clone(w.unread),
	}
}
