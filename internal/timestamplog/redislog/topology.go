package redislog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/supervise"
)

// In a Cluster the keys of a call must be of one slot, but a connection reaches all slots of a
// primary. So requests are batched by primary. A batch is one call whose logs are no keys, or a
// pipeline with one call for each shard.

// topology knows the primaries of a Cluster. Its knowledge may be outdated: a call that reaches
// the wrong primary does nothing, and is then sent to the one that the Cluster names.
type topology struct {
	client *redis.ClusterClient
	open   func(*redis.Client) *primary // creates a primary
	// unknown takes the calls until the topology is known.
	unknown *primary

	looking sync.Mutex
	looked  time.Time // the time of the last lookup
	shards  atomic.Pointer[[Shards]*primary]
}

// lookEvery is the minimum time between two lookups of the primaries of the shards. A lookup
// sends nothing: the client knows the slots, and learns of changes by itself.
const lookEvery = 50 * time.Millisecond

// primary returns the primary that has a shard.
func (t *topology) primary(shard int) *primary {
	if shards := t.shards.Load(); shards != nil {
		return shards[shard]
	}
	return t.unknown
}

// shardOf returns one of the shards that p has.
func (t *topology) shardOf(p *primary) (shard int, found bool) {
	shards := t.shards.Load()
	if shards == nil {
		return 0, p == t.unknown
	}
	shard = slices.Index(shards[:], p)
	return shard, shard >= 0
}

// look finds out which primary has which shard, unless that was done within lookEvery. It changes
// nothing if the client does not know.
func (t *topology) look(ctx context.Context) {
	if !t.looking.TryLock() {
		return
	}
	defer t.looking.Unlock()
	if time.Since(t.looked) < lookEvery {
		return
	}
	known := map[redis.UniversalClient]*primary{}
	if shards := t.shards.Load(); shards != nil {
		for _, p := range shards {
			known[p.client] = p
		}
	}
	var shards [Shards]*primary
	for shard := range shards {
		client, err := t.client.MasterForKey(ctx, shardTags[shard])
		if err != nil {
			return
		}
		if known[client] == nil {
			known[client] = t.open(client)
		}
		shards[shard] = known[client]
	}
	t.looked = time.Now()
	t.shards.Store(&shards)
}

// shardTags has the hash tag of each shard, which determines its slot.
var shardTags = func() (tags [Shards]string) {
	for shard := range tags {
		tags[shard] = "{" + strconv.Itoa(shard) + "}"
	}
	return tags
}()

// newTopology returns the topology of a Cluster, of which nothing is known yet.
func (l *Log) newTopology(client *redis.ClusterClient) *topology {
	t := &topology{client: client}
	t.open = func(server *redis.Client) *primary {
		p := l.newPrimary(serverName(server), server, func(ctx context.Context, p *primary, c *call) error {
			t.look(ctx)
			return l.sendTo(ctx, p, server, c)
		})
		for _, b := range []struct {
			*batcher
			form *callForm
		}{
			{p.decides, &decideCall}, {p.reserves, &reserveCall}, {p.hurriedDecides, &decideCall}, {p.hurriedReserves, &reserveCall},
		} {
			b.resend = func(ctx context.Context, items []*item) { l.sendElsewhere(ctx, b.form, items) }
		}
		return p
	}
	t.unknown = l.newPrimary(serverName(client), client, func(ctx context.Context, _ *primary, c *call) error {
		t.look(ctx)
		l.sendEach(ctx, c.form, c.items, unreachable)
		return nil
	})
	return t
}

// sendTo sends the items of c to p, a primary of a Cluster that server reaches. It fills in their
// results, or marks the items that are elsewhere. It returns an error if no shard was answered
// for, and errLate if some of the calls were late.
func (l *Log) sendTo(ctx context.Context, p *primary, server *redis.Client, c *call) error {
	if err := l.readClock(ctx, p); errors.Is(err, redis.ErrClosed) { // it has left the Cluster
		for _, it := range c.items {
			it.elsewhere = true
		}
		return nil
	} else if err != nil {
		l.refreshTopology()
		return err
	}
	form, parts := c.parts()
	commands := make([]onceCall, len(parts))
	pipeline, now := server.Pipeline(), l.now(&p.clock, c.until)
	for i, items := range parts {
		keys, args := form.arguments(now, items)
		commands[i] = onceCall{redis.NewCmd(ctx, append([]any{"fcall", form.function, keys}, args...)...)}
		_ = pipeline.Process(ctx, commands[i]) // it only waits for Exec
	}
	_, _ = pipeline.Exec(ctx) // each command has its own error
	var failed error
	answered, late := false, false
	for i, items := range parts {
		err := commands[i].Err()
		switch {
		case err == nil:
			answered = true
			if err := readReply(commands[i].Val(), items, &p.clock); err != nil {
				late = late || errors.Is(err, errLate)
				fail(items, unreachable(err))
			}
		case wasNotDone(err):
			answered = true
			for _, it := range items {
				it.elsewhere = true
			}
		case isSlotError(err):
			answered = true
			fail(items, unanswerable(slotUnavailable(err)))
		default:
			fail(items, unreachable(err))
			failed = err
		}
	}
	if failed != nil {
		l.refreshTopology()
	}
	switch {
	case late:
		return errLate
	case answered:
		return nil
	}
	return failed
}

// parts returns the items of each call that c needs to reach one primary, and the form of these
// calls.
//
// Fast path: one call for all. Plain version: a call for each shard, as stint_reserve needs.
// Benchmark: BenchmarkCluster, 0.7 to 0.8 of the processor time of Redis.
func (c *call) parts() (*callForm, [][]*item) {
	if c.form.across == nil || areOfOneShard(c.items) {
		return c.form, byShard(c.items)
	}
	return c.form.across, [][]*item{c.items}
}

func areOfOneShard(items []*item) bool {
	return !slices.ContainsFunc(items, func(it *item) bool { return it.shard != items[0].shard })
}

// sendElsewhere sends items to the primaries that have them now and fills in their results. These
// say nothing about the primary that redirected the items.
func (l *Log) sendElsewhere(ctx context.Context, form *callForm, items []*item) {
	l.sendEach(ctx, form, items, unanswerable)
}

// sendEach sends the items of each shard in a call of their own, all concurrently, to the
// primaries that have them, and fills in their results. failure makes the error of a call that
// failed.
func (l *Log) sendEach(ctx context.Context, form *callForm, items []*item, failure func(error) error) {
	var group sync.WaitGroup
	for _, items := range byShard(items) {
		group.Go(func() {
			err := supervise.Call("redis batcher", func() error { return l.send(ctx, nil, &call{form: form, items: items}) })
			if err != nil {
				fail(items, failure(err))
			}
		})
	}
	group.Wait()
}

// byShard sorts items by shard, without changing the order within a shard, and returns the items
// of each shard.
func byShard(items []*item) [][]*item {
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.shard, b.shard) })
	var shards [][]*item
	for from, i := 0, 1; i <= len(items); i++ {
		if i == len(items) || items[i].shard != items[from].shard {
			shards = append(shards, items[from:i])
			from = i
		}
	}
	return shards
}
