// Package redislog is the timestamp log in Redis 7 or newer, or Valkey: a string
// of times per policy and key, on which a function library decides. Any number
// of nodes may share it. Redis's own clock is the only one that counts.
package redislog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// DefaultTimeout bounds a call whose callers set no deadline.
const DefaultTimeout = time.Second

// Options are what a Log may be told. The zero value is good.
type Options struct {
	// Prefix begins the name of every key, as CheckPrefix allows; empty means
	// DefaultPrefix. Logs of
	// two installations on one Redis differ by it, and changing it forgets all.
	Prefix string
	// Secret returns the secret, the same on all nodes, under which keys are
	// spread over the shards; empty while it is not known, and then no log can
	// be asked. nil spreads them under no secret, which only tests and
	// measurements may do.
	Secret func() []byte
	// Timeout bounds each call to Redis; 0 means DefaultTimeout. A caller's own
	// deadline, where it is earlier, holds for that caller.
	Timeout time.Duration
	// Clock is for tests only: it takes the place of Redis's clock, by which
	// alone several nodes agree. nil means Redis's clock.
	Clock func() time.Time
}

// Log is a timestamplog.Log in Redis.
type Log struct {
	client  redis.UniversalClient
	prefix  string
	shards  sharder
	timeout time.Duration
	clock   func() time.Time // nil for Redis's own
	// Lanes gather requests into calls, those that stint_decide can answer and
	// those that only stint_turns can, which is dearer.
	plain, careful *lanes
	groups         groups
	stacks         stackTexts
}

var _ timestamplog.Log = (*Log)(nil)

// New returns the log on client, which Close closes. Connect makes a client
// that waits no longer than it is told to; no settings of a client make a
// request count twice.
func New(client redis.UniversalClient, options Options) *Log {
	l := &Log{client: client, prefix: options.Prefix, timeout: options.Timeout, clock: options.Clock}
	l.shards.secret = options.Secret
	if l.prefix == "" {
		l.prefix = DefaultPrefix
	}
	if l.timeout <= 0 {
		l.timeout = DefaultTimeout
	}
	l.plain, l.careful = l.newLanes(&plainForm), l.newLanes(&carefulForm)
	return l
}

// Open returns the log on the Redis that url names, as Connect reads it. It
// does not wait for Redis to answer. The error says what is wrong with the URL
// or the prefix.
func Open(url string, options Options) (*Log, error) {
	if options.Prefix != "" {
		if err := CheckPrefix(options.Prefix); err != nil {
			return nil, err
		}
	}
	client, err := Connect(url)
	if err != nil {
		return nil, err
	}
	return New(client, options), nil
}

// Close closes the connections. Requests that are under way fail.
func (l *Log) Close() error { return l.client.Close() }

// Decide implements timestamplog.Log.
func (l *Log) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	if len(requests) == 0 {
		return
	}
	if err := l.shards.check(); err != nil {
		for i := range results[:len(requests)] {
			results[i] = timestamplog.Result{Err: err}
		}
		return
	}
	lanes := l.plain
	if needCare(requests) {
		lanes = l.careful
	}
	if lanes.cluster == nil || len(requests) == 1 {
		l.decideTogether(ctx, lanes, requests, results)
		return
	}
	l.decideByLane(ctx, lanes, requests, results)
}

// decideTogether puts all requests into the lane of the first.
func (l *Log) decideTogether(ctx context.Context, lanes *lanes, requests []timestamplog.Request, results []timestamplog.Result) {
	g := l.groups.get(len(requests))
	shard := 0
	for i := range requests {
		shard = l.fill(&g.items[i], &requests[i])
	}
	lanes.of(shard).submit(ctx, g)
	err := l.wait(ctx, g)
	for i := range results[:len(requests)] {
		results[i] = g.answer(i, err)
	}
	g.release(err)
}

// decideByLane puts each request into the lane of its key.
func (l *Log) decideByLane(ctx context.Context, lanes *lanes, requests []timestamplog.Request, results []timestamplog.Result) {
	byLane := map[*lane]*group{}
	groups := make([]*group, len(requests)) // where each request went,
	places := make([]int, len(requests))    // and at which place
	for i := range requests {
		var it item
		lane := lanes.of(l.fill(&it, &requests[i]))
		g := byLane[lane]
		if g == nil {
			g = l.groups.get(0)
			byLane[lane] = g
		}
		groups[i], places[i] = g, len(g.items)
		g.items = append(g.items, it)
	}
	for lane, g := range byLane {
		lane.submit(ctx, g)
	}
	errs := make(map[*group]error, len(byLane))
	for _, g := range byLane {
		errs[g] = l.wait(ctx, g)
	}
	for i, g := range groups {
		results[i] = g.answer(places[i], errs[g])
	}
	for g, err := range errs {
		g.release(err)
	}
}

// wait returns nil once the items of g have their results, or why the caller no
// longer waits. Requests whose logs and IDs lay on two nodes have not been decided,
// and are asked again by their caller, so that nobody else waits for them.
func (l *Log) wait(ctx context.Context, g *group) error {
	if err := g.wait(ctx); err != nil {
		return err
	}
	var torn []*item
	for i := range g.items {
		if errors.Is(g.items[i].result.Err, errTorn) {
			torn = append(torn, &g.items[i])
		}
	}
	if len(torn) > 0 {
		l.decideAlone(ctx, torn)
	}
	return nil
}

// fill writes what Redis is to be asked for q and returns the shard.
func (l *Log) fill(it *item, q *timestamplog.Request) int {
	shard := l.shards.of(q.Key)
	it.shard, it.name = shard, logName(l.prefix, shard, q.Ref)
	it.stack = l.stacks.text(q)
	it.rules = q.Rules
	it.cost = uint16(q.Cost)
	it.peek, it.detail = q.Peek, q.Detail
	it.counted = q.Algorithm != nil && !q.Algorithm.IsLog()
	it.maxWait, it.id = q.MaxWait, q.ID
	if it.peek {
		it.id = "" // a peek neither looks for one nor leaves one
	}
	return shard
}

// slotOf returns a number that differs for shards that no one call can reach.
func (l *Log) slotOf(shard int) int {
	if l.plain.cluster != nil {
		return shard
	}
	return 0
}

// send asks Redis about items, which in a Cluster are of one shard, and fills in
// their results. While a Cluster moves a slot, a call finds some of its keys here
// and some there: Redis refuses it whole, and each request is then asked alone,
// which leads to where its keys are; or says errTorn where they still are not
// together.
func (l *Log) send(ctx context.Context, form *form, items []*item) error {
	keys, args := form.arguments(l.now(), items)
	reply, err := functions.call(ctx, l.client, form.function, keys, args...)
	if err == nil {
		return readReply(reply, items)
	}
	if !isSplit(err) {
		l.lookAround()
		return err
	}
	if len(items) == 1 {
		items[0].result = timestamplog.Result{Err: errTorn}
		return nil
	}
	for i := range items {
		if err := l.send(ctx, form, items[i:i+1]); err != nil {
			items[i].result = timestamplog.Result{Err: unreachable(err)}
		}
	}
	return nil
}

// lookAround has the client of a Cluster ask who has which slots, after an error
// that a primary's death may have caused. The library does so by itself only
// where it may send a command twice, and else once a minute.
func (l *Log) lookAround() {
	if cluster, ok := l.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background()) // in the background, and not too often
	}
}

// errTorn is the result of a request that was not decided since its log and what
// is known of its IDs lay on two nodes.
var errTorn = errors.New("a log and its IDs lie on two nodes")

// isSplit reports whether err says that a slot's keys lie on two nodes for the
// moment. Redis then has done nothing.
func isSplit(err error) bool { return strings.HasPrefix(err.Error(), "TRYAGAIN") }

// now returns the argument that overrides Redis's clock, empty for none.
func (l *Log) now() string {
	if l.clock == nil {
		return ""
	}
	return strconv.FormatInt(l.clock().UnixMilli(), 10)
}

// Times implements timestamplog.Log.
func (l *Log) Times(ctx context.Context, ref timestamplog.Ref, limit int) ([]int64, int64, error) {
	if err := l.shards.check(); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := l.nameOf(ref)
	reply, err := functions.call(ctx, l.client, functions.times, 1, name, l.now(), max(0, limit))
	if err != nil {
		return nil, 0, unreachable(err)
	}
	texts, ok := reply.([]any)
	if !ok || len(texts) == 0 {
		return nil, 0, unreachable(fmt.Errorf("redis answered %T instead of a list of times", reply))
	}
	times := make([]int64, len(texts))
	for i, text := range texts {
		written, _ := text.(string)
		if times[i], err = strconv.ParseInt(written, 10, 64); err != nil {
			return nil, 0, unreachable(fmt.Errorf("redis answered %v instead of a time", text))
		}
	}
	return times[1:], times[0], nil
}

// Now implements timestamplog.Log. In a Cluster it is the clock of one of the
// nodes.
func (l *Log) Now(ctx context.Context) (time.Time, error) {
	if l.clock != nil {
		return l.clock(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	now, err := l.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, unreachable(err)
	}
	return now.Truncate(time.Millisecond), nil
}

// unreachable makes err match timestamplog.ErrUnreachable.
func unreachable(err error) error {
	return fmt.Errorf("%w: %w", timestamplog.ErrUnreachable, err)
}
