// Package redislog is the timestamp log in Redis 7 or newer, or Valkey: a string
// of times for each policy and key, and a function library that decides. Any number
// of nodes may share it. Only Redis's own clock counts.
package redislog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// DefaultTimeout bounds a call whose callers set no deadline.
const DefaultTimeout = time.Second

// Options are the settings of a Log. The zero value is valid.
type Options struct {
	// Prefix begins the name of every key, as CheckPrefix allows; empty means DefaultPrefix. It
	// separates the logs of two installations on one Redis. Changing it forgets all logs.
	Prefix string
	// Secret returns the secret, the same on all nodes, under which keys are spread over the
	// shards. It returns nothing while the secret is not known, and then all requests fail. nil
	// spreads keys without a secret, which only tests and measurements may do.
	Secret func() []byte
	// Timeout bounds each call to Redis; 0 means DefaultTimeout. A caller's own deadline
	// applies to that caller if it is earlier.
	Timeout time.Duration
	// MaxLatency is how long a primary may take to answer. If a caller's own deadline is
	// earlier, the caller gives up then, but the call goes on until MaxLatency, and only its
	// result may begin an outage. 0 means that every caller whose deadline passes counts as a
	// failure of the primary.
	MaxLatency time.Duration
	// OnOutage is called when an outage of a primary begins and when it ends, one call at a
	// time. It must return quickly, since a request waits for it, and must not ask the log for
	// a decision. nil means no calls.
	OnOutage func(timestamplog.OutageEvent)
	// OnRequestError is called with the error of each request that Redis answered without a
	// decision, so that no other request fails for the same reason: its key holds something
	// else, its slot is unavailable, or the user lacks a right. It must return quickly. nil means
	// no calls.
	OnRequestError func(error)
	// Observe is called with the error of each call to Redis, whether it was a decision or not;
	// nil means no calls. One call may carry many requests, or a pipeline of several commands.
	Observe func(ctx context.Context, isDecision bool, began time.Time, err error)
	// Clock replaces Redis's clock in tests. Several nodes agree only by Redis's clock. nil
	// means Redis's clock.
	Clock func() time.Time
}

// Log is a timestamplog.Log in Redis. It has more than 25 methods because its users need one
// object, and because the ways to send a call all need the client, the topology and the
// timeout. Each file has one concern.
type Log struct {
	client     redis.UniversalClient
	target     redisconn.Target // what Open parsed
	prefix     string
	shards     sharder
	timeout    time.Duration
	maxLatency time.Duration
	clock      func() time.Time // nil for Redis's own
	// single is the only primary; nil in a Cluster, where topology knows the primaries.
	single   *primary
	topology *topology
	groups   groups
	stacks   timestamplog.Derived[string] // by stackText

	outages  *outages
	requests requestObserver // may be nil
}

var _ timestamplog.Log = (*Log)(nil)

// New returns the log on client. Close closes client. If redisconn.Connect made client, calls end at
// their timeouts. No settings of a client make a request count twice.
func New(client redis.UniversalClient, options Options) *Log {
	l := &Log{client: client, prefix: options.Prefix, timeout: options.Timeout, maxLatency: options.MaxLatency, clock: options.Clock, requests: options.OnRequestError}
	l.shards.secret = options.Secret
	observeCalls(client, options.Observe)
	l.outages = newOutages(options.OnOutage, l.probe)
	if l.prefix == "" {
		l.prefix = DefaultPrefix
	}
	if l.timeout <= 0 {
		l.timeout = DefaultTimeout
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		l.topology = l.newTopology(cluster)
	} else {
		l.single = l.newPrimary(serverName(client), client, l.send)
	}
	return l
}

// Open returns the log on the Redis that url names in the syntax of redisconn.Connect. It does not wait
// for Redis to answer. The error says what is wrong with the URL or the prefix.
func Open(url string, options Options) (*Log, error) {
	if options.Prefix != "" {
		if err := CheckPrefix(options.Prefix); err != nil {
			return nil, err
		}
	}
	client, err := redisconn.Connect(url)
	if err != nil {
		return nil, err
	}
	l := New(client, options)
	l.target = redisconn.TargetOf(url)
	return l, nil
}

// Stop ends the probes, and leaves the client to those who made it.
func (l *Log) Stop() { l.outages.close() }

// Close closes the connections. Requests in flight fail.
func (l *Log) Close() error {
	l.Stop()
	return l.client.Close()
}

// Outages implements timestamplog.Log. It returns the primaries that are unreachable.
func (l *Log) Outages() []timestamplog.Outage { return l.outages.list() }

// primaryOf returns the primary that decides about the logs of a shard.
func (l *Log) primaryOf(shard int) *primary {
	if l.topology != nil {
		return l.topology.primary(shard)
	}
	return l.single
}

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
	if l.topology == nil || len(requests) == 1 {
		l.decideByOne(ctx, requests, results)
		return
	}
	l.decideByPrimary(ctx, requests, results)
}

// decideByOne asks one primary about all requests: the only primary, or that of a single request.
func (l *Log) decideByOne(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	g := l.groups.get(len(requests))
	shard := 0
	for i := range requests {
		shard = l.fill(&g.items[i], &requests[i])
	}
	p := l.primaryOf(shard)
	err := errOutage
	if !p.breaker.refuses(len(requests)) {
		b := p.batcher(needsReserve(requests), isHurried(ctx, l.maxLatency))
		b.submit(ctx, g)
		err = l.wait(ctx, p, b, g)
	}
	for i := range results[:len(requests)] {
		results[i] = g.answer(i, err)
		l.requests.observe(results[i].Err)
	}
	g.release(err)
}

// decideByPrimary asks the primary of each key about its requests.
func (l *Log) decideByPrimary(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	reserves, hurried := needsReserve(requests), isHurried(ctx, l.maxLatency)
	byPrimary := map[*primary]*group{}
	groups := make([]*group, len(requests)) // the group of each request,
	places := make([]int, len(requests))    // and its index in that group
	for i := range requests {
		var it item
		p := l.primaryOf(l.fill(&it, &requests[i]))
		g := byPrimary[p]
		if g == nil {
			g = l.groups.get(0)
			byPrimary[p] = g
		}
		groups[i], places[i] = g, len(g.items)
		g.items = append(g.items, it)
	}
	errs := make(map[*group]error, len(byPrimary))
	for p, g := range byPrimary {
		if p.breaker.refuses(len(g.items)) {
			errs[g] = errOutage
			continue
		}
		p.batcher(reserves, hurried).submit(ctx, g)
	}
	for p, g := range byPrimary {
		if errs[g] == nil {
			errs[g] = l.wait(ctx, p, p.batcher(reserves, hurried), g)
		}
	}
	for i, g := range groups {
		results[i] = g.answer(places[i], errs[g])
		l.requests.observe(results[i].Err)
	}
	for g, err := range errs {
		g.release(err)
	}
}

// wait returns nil once b has the results of the items of g from p, or the reason why the
// caller no longer waits. Requests whose logs and IDs were on two nodes have not been decided.
// Their caller asks about them again by itself, so that no other caller waits for them.
func (l *Log) wait(ctx context.Context, p *primary, b *batcher, g *group) error {
	err := g.wait(ctx)
	if b.judge == nil {
		l.outages.judge(ctx, p, g, err)
	}
	if err != nil {
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

// isHurried reports whether the caller of ctx waits for less time than a primary may take, which
// is maxLatency; 0 means that no caller is hurried. A caller with a timeout of maxLatency has a
// little less left at this point, and is not hurried.
func isHurried(ctx context.Context, maxLatency time.Duration) bool {
	if maxLatency <= 0 {
		return false
	}
	until, limited := ctx.Deadline()
	return limited && time.Until(until) < maxLatency*9/10
}

// fill fills in it from q and returns the shard.
func (l *Log) fill(it *item, q *timestamplog.Request) int {
	shard := l.shards.of(q.Key)
	it.shard, it.name = shard, logName(l.prefix, shard, q.LogID)
	it.stack = l.stackOf(q)
	it.rules = q.Rules
	it.cost = uint64(q.Cost) //nolint:gosec // at least 1
	it.peek, it.detail = q.Peek, q.Detail
	it.counted = q.Algorithm != nil && !q.Algorithm.IsLog()
	if it.value = 0; q.TakesValue() {
		it.value = q.Value
	}
	it.hold, it.source = q.Hold, q.Source
	it.maxWait, it.id, it.always, it.uncharged = q.MaxWait, q.ID, q.ChargeAlways, q.Uncharged && !q.Peek
	if it.peek {
		it.id = "" // a peek neither looks up an ID nor stores one
	}
	return shard
}

// slotOf returns a number that differs for shards that one call cannot reach together.
func (l *Log) slotOf(shard int) int {
	if l.topology != nil {
		return shard
	}
	return 0
}

// send asks Redis about the items of c and fills in their results. In a Cluster it asks the
// server of their one shard. While a Cluster moves a slot, some keys of a call may be on one
// node and some on another. Redis then refuses the whole call, and each request is asked about
// alone, which reaches the node that has its keys. The result is errTorn if even the keys of
// one request are on two nodes. p is the primary whose clock bounds the call, nil if it is not
// known which one answers.
func (l *Log) send(ctx context.Context, p *primary, c *call) error {
	clock := new(serverClock)
	if p != nil {
		clock = &p.clock
		if err := l.readClock(ctx, p); err != nil {
			return err
		}
	}
	keys, args := c.form.arguments(l.now(clock, c.until), c.items)
	reply, err := functions.call(ctx, l.client, c.form.function, keys, args...)
	switch {
	case err == nil:
		if err = readReply(reply, c.items, clock); errors.Is(err, errLate) {
			fail(c.items, unreachable(err))
		}
		return err
	case !isSlotError(err):
		l.refreshTopology()
		return err
	case !isSplit(err):
		fail(c.items, unanswerable(slotUnavailable(err)))
		return nil
	case len(c.items) == 1:
		fail(c.items, requestError{errTorn})
		return nil
	}
	for i := range c.items {
		if err := l.send(ctx, p, c.part(c.items[i:i+1])); err != nil {
			fail(c.items[i:i+1], unanswerable(err))
		}
	}
	return nil
}

// refreshTopology makes the client of a Cluster ask which node has which slots, after an error
// that a primary's death may have caused. On its own, go-redis does so only if it may send a
// command twice, and otherwise once a minute.
func (l *Log) refreshTopology() {
	if cluster, ok := l.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background()) // asynchronous and rate-limited by go-redis
	}
}

// now returns the first argument of a call: the deadline by the server's clock, or in tests the
// time that overrides that clock.
func (l *Log) now(clock *serverClock, until time.Time) string {
	if l.clock == nil {
		return clock.argument(until)
	}
	return l.override()
}

// override returns the first argument of a call without a deadline: the time that overrides the
// clock in tests, or empty.
func (l *Log) override() string {
	if l.clock == nil {
		return ""
	}
	return strconv.FormatInt(l.clock().UnixMilli(), 10)
}

// Timestamps implements timestamplog.Log.
func (l *Log) Timestamps(ctx context.Context, id timestamplog.LogID, limit int) ([]int64, int64, error) {
	return l.read(ctx, functions.times, id, max(0, limit))
}

// Charges implements timestamplog.Log.
func (l *Log) Charges(ctx context.Context, id timestamplog.LogID, window int64) ([]algorithms.Charge, int64, error) {
	numbers, now, err := l.read(ctx, functions.numbers, id)
	return algorithms.Charges(numbers, window, now), now, err
}

// Holds implements timestamplog.Log.
func (l *Log) Holds(ctx context.Context, id timestamplog.LogID) (open []timestamplog.Hold, now int64, err error) {
	texts, err := l.readTexts(ctx, functions.holds, id)
	if err != nil {
		return nil, 0, err
	}
	all, err := numbersIn(texts[0])
	if err != nil || len(texts)%4 != 1 {
		return nil, 0, cmp.Or(err, unreachable(errReply))
	}
	for hold := range slices.Chunk(texts[1:], 4) {
		numbers, err := numbersIn(hold[:3]...)
		if err != nil {
			return nil, 0, err
		}
		open = append(open, timestamplog.Hold{Taken: numbers[0], Amount: numbers[1], Expires: numbers[2], Source: hold[3]})
	}
	return open, all[0], nil
}

// read calls a function that returns the present time and other numbers of a log.
func (l *Log) read(ctx context.Context, function string, id timestamplog.LogID, args ...any) (numbers []int64, now int64, err error) {
	texts, err := l.readTexts(ctx, function, id, args...)
	if err != nil {
		return nil, 0, err
	}
	all, err := numbersIn(texts...)
	if err != nil {
		return nil, 0, err
	}
	return all[1:], all[0], nil
}

// readTexts calls a function that returns the present time and other texts about a log.
func (l *Log) readTexts(ctx context.Context, function string, id timestamplog.LogID, args ...any) ([]string, error) {
	if err := l.shards.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	reply, err := functions.call(ctx, l.client, function, 1, append([]any{l.nameOf(id), l.override()}, args...)...)
	if err != nil {
		return nil, unreachable(err)
	}
	answered, ok := reply.([]any)
	if !ok || len(answered) == 0 {
		return nil, unreachable(fmt.Errorf("redis answered %T instead of a list", reply))
	}
	texts := make([]string, len(answered))
	for i, text := range answered {
		texts[i], _ = text.(string)
	}
	return texts, nil
}

// numbersIn returns the numbers that texts say.
func numbersIn(texts ...string) (numbers []int64, err error) {
	numbers = make([]int64, len(texts))
	for i, text := range texts {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, unreachable(fmt.Errorf("redis answered %q instead of a number", text))
		}
	}
	return numbers, nil
}

// Now implements timestamplog.Log. In a Cluster it returns the clock of one of the nodes.
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
