package redislog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/supervise"
)

// In a Cluster a call may touch one slot only, but a connection reaches all
// slots of a primary. So requests are gathered by primary, and each flight is a
// pipeline of calls, one for each shard that it asks about.

// primaries have a lane for each primary of a Cluster. Which one has a shard may
// have changed since they looked: a call that reaches the wrong one does
// nothing, and is then sent where the Cluster says.
type primaries struct {
	client *redis.ClusterClient
	open   func(*redis.Client) *lane // makes a primary's lane
	// unknown is the lane for as long as nobody has told who has what.
	unknown *lane

	drawing sync.Mutex
	drawn   time.Time // when lanes were last looked up
	lanes   atomic.Pointer[[Shards]*lane]
}

// lookEvery bounds how often it is looked up who has which shard. It asks
// nobody: the client knows, and learns of changes by itself.
const lookEvery = 50 * time.Millisecond

// lane returns the lane of the primary that has a shard.
func (p *primaries) lane(shard int) *lane {
	if lanes := p.lanes.Load(); lanes != nil {
		return lanes[shard]
	}
	return p.unknown
}

// look finds out who has which shard, unless somebody has just done so. It
// leaves everything as it is where the Cluster does not say.
func (p *primaries) look(ctx context.Context) {
	if !p.drawing.TryLock() {
		return
	}
	defer p.drawing.Unlock()
	if time.Since(p.drawn) < lookEvery {
		return
	}
	known := map[*redis.Client]*lane{}
	if lanes := p.lanes.Load(); lanes != nil {
		for _, l := range lanes {
			known[l.primary] = l
		}
	}
	var lanes [Shards]*lane
	for shard := range lanes {
		client, err := p.client.MasterForKey(ctx, shardTags[shard])
		if err != nil {
			return
		}
		if known[client] == nil {
			known[client] = p.open(client)
		}
		lanes[shard] = known[client]
	}
	p.drawn = time.Now()
	p.lanes.Store(&lanes)
}

// shardTags have the hash tag of each shard, and so its slot.
var shardTags = func() (tags [Shards]string) {
	for shard := range tags {
		tags[shard] = "{" + strconv.Itoa(shard) + "}"
	}
	return tags
}()

// newPrimaries returns the lanes of a form on a Cluster.
func (l *Log) newPrimaries(client *redis.ClusterClient, form *form) *primaries {
	p := &primaries{client: client}
	p.open = func(primary *redis.Client) *lane {
		send := func(ctx context.Context, items []*item) error {
			p.look(ctx)
			return l.sendTo(ctx, primary, form, items)
		}
		return &lane{send: send, timeout: l.timeout, primary: primary}
	}
	p.unknown = &lane{timeout: l.timeout, send: func(ctx context.Context, items []*item) error {
		p.look(ctx)
		l.sendEach(ctx, form, byShard(items))
		return nil
	}}
	return p
}

// sendTo asks one primary of a Cluster about items and fills in their results.
// It returns an error only where no call was answered.
func (l *Log) sendTo(ctx context.Context, primary *redis.Client, form *form, items []*item) error {
	calls := byShard(items)
	commands := make([]onceCall, len(calls))
	pipeline, now := primary.Pipeline(), l.now()
	for i, call := range calls {
		keys, args := form.arguments(now, call)
		commands[i] = onceCall{redis.NewCmd(ctx, append([]any{"fcall", form.function, keys}, args...)...)}
		commands[i].SetFirstKeyPos(3)
		_ = pipeline.Process(ctx, commands[i]) // it only waits for Exec
	}
	_, _ = pipeline.Exec(ctx) // each command has its own error
	var failed error
	var elsewhere [][]*item
	failures := 0
	for i, call := range calls {
		err := commands[i].Err()
		switch {
		case err == nil:
			err = readReply(commands[i].Val(), call)
		case wasNotDone(err):
			elsewhere = append(elsewhere, call)
			continue
		}
		if err != nil {
			fail(call, err)
			failed = err
			failures++
		}
	}
	if failed != nil {
		l.lookAround()
	}
	if failures == len(calls) {
		return failed
	}
	l.sendEach(ctx, form, elsewhere)
	return nil
}

// sendEach sends each call by itself, all at once, to wherever it belongs, and
// fills in the results.
func (l *Log) sendEach(ctx context.Context, form *form, calls [][]*item) {
	var group sync.WaitGroup
	for _, call := range calls {
		group.Go(func() {
			if err := supervise.Call("redis batcher", func() error { return l.send(ctx, form, call) }); err != nil {
				fail(call, err)
			}
		})
	}
	group.Wait()
}

// fail makes err the answer to items.
func fail(items []*item, err error) {
	err = unreachable(err)
	for _, it := range items {
		it.result.Err = err
	}
}

// byShard sorts items by their shards, each shard's in their order, and returns
// those of each shard.
func byShard(items []*item) [][]*item {
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.shard, b.shard) })
	var calls [][]*item
	for from, i := 0, 1; i <= len(items); i++ {
		if i == len(items) || items[i].shard != items[from].shard {
			calls = append(calls, items[from:i])
			from = i
		}
	}
	return calls
}

// wasNotDone reports whether err says that this server has done nothing and that
// another, or the same one a little later, will: a slot has moved or is about
// to, this is no primary any more, it lacks the library, or its connections have
// been closed since it left the Cluster. An error of the network is none of these.
func wasNotDone(err error) bool {
	if isMissing(err) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	return slices.ContainsFunc([]string{"MOVED ", "ASK ", "TRYAGAIN", "READONLY"}, func(word string) bool {
		return strings.HasPrefix(err.Error(), word)
	})
}
