package redislog

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Fast path. Plain version: a call for each request, DecidePlain in
// export_test.go. Benchmark: BenchmarkDecide, 4.1 times as many checks a second
// with 64 callers, November 2026.
//
// One call with many requests costs Redis and the network a fraction of as many
// calls, so requests that arrive while calls are in flight are sent together in
// the next one. A request that arrives while none is in flight is sent at once.
const (
	// maxBatch bounds the requests in one call, during which Redis does
	// nothing else.
	maxBatch = 128
	// maxInFlight is how many calls of one batcher are in flight at a time: while
	// Redis works on one, the next has already arrived.
	maxInFlight = 2
	// smallBatch and slowCall decide when a second call is worth it. Its requests
	// do not wait for the first call, but the two share what one could have
	// carried, and a call costs as much as several of its requests. So the second
	// is sent if the first has fewer than smallBatch requests, has been in flight
	// for longer than slowCall, which a Redis nearby does not take, or if a full
	// batch is queued.
	smallBatch = 16
	slowCall   = 300 * time.Microsecond
	// yields is how often a sender yields to runnable goroutines before it takes
	// the queue: under load these are callers that are about to ask. Without any,
	// it costs less than a microsecond.
	yields = 3
)

// item is one request on its way to Redis.
type item struct {
	name         string
	shard        int
	stack        string // as the function library reads it
	rules        rules.Stack
	cost         uint32
	peek, detail bool
	counted      bool // by a counter, whose waits may be long
	// What stint_decide knows nothing of.
	always bool // as Request.ChargeAlways
	// uncharged is as Request.Uncharged.
	uncharged bool
	value     uint64 // as Request.Value, 0 for none
	maxWait   int64
	id        string
	// elsewhere says that the primary did nothing, since another has the log.
	elsewhere bool
	result    timestamplog.Result
}

// group is the requests of one Decide that share a batcher. They are answered
// in their order, so they stay together.
type group struct {
	items []item
	state atomic.Int32
	// redirected says that the primary answered and that some requests were sent
	// on to another.
	redirected atomic.Bool
	// partly says that the primary answered some of the calls that the group needs.
	partly atomic.Bool
	done   chan struct{} // takes one value when the items have their results
	until  time.Time     // when its caller gives up; zero for never
	home   *groups
}

// The states of a group. A caller who gives up cancels it: one that is waiting is
// then never sent, and one that was sent is not sent again.
const (
	waiting int32 = iota
	sent
	cancelled
)

// groups hands out groups, those that were released first. The zero value is
// ready, and safe for use by many goroutines.
type groups struct{ pool sync.Pool }

// get returns a group of n empty items.
func (gs *groups) get(n int) *group {
	g, _ := gs.pool.Get().(*group)
	if g == nil {
		g = &group{done: make(chan struct{}, 1), home: gs}
	}
	if cap(g.items) < n {
		g.items = make([]item, n)
	}
	g.items = g.items[:n]
	g.state.Store(waiting)
	g.redirected.Store(false)
	g.partly.Store(false)
	return g
}

// wait returns nil once the items have their results, or why the caller no
// longer waits.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		g.state.Store(cancelled)
		return unreachable(ctx.Err())
	}
}

// isGone reports whether its caller has given up.
func (g *group) isGone(now time.Time) bool {
	return g.state.Load() == cancelled || !g.until.IsZero() && !now.Before(g.until)
}

// answer returns the i-th result, or err where the caller did not wait for it.
func (g *group) answer(i int, err error) timestamplog.Result {
	if err != nil {
		return timestamplog.Result{Err: err}
	}
	return g.items[i].result
}

func (g *group) hasElsewhere() bool {
	return slices.ContainsFunc(g.items, func(it item) bool { return it.elsewhere })
}

// release lets the group be used again, unless its caller gave up, in which
// case a sender may still write to it.
func (g *group) release(err error) {
	if err != nil {
		return
	}
	clear(g.items)
	g.home.pool.Put(g)
}

// batcher sends groups in calls of up to maxBatch requests, maxInFlight at a
// time, to one primary.
type batcher struct {
	// send asks about items, whose callers wait until an instant and longer, and
	// fills in their results. It returns an error where it left items without,
	// and errLate where it gave that to some as their own. Those that are
	// elsewhere it only marks.
	send func(ctx context.Context, items []*item, until time.Time) error
	// resend fills in the results of those; nil where no other has a log.
	resend  func(ctx context.Context, items []*item)
	timeout time.Duration // bounds each call
	// judge records what came of a call to the primary; nil where the callers do. With
	// it calls go on when their callers have given up, until timeout.
	judge func(items []*item, err error)

	mu         sync.Mutex
	queue      []*group
	queued     int // requests in queue
	inFlight   int
	lastBatch  int       // requests in the call that was sent last,
	lastSentAt time.Time // and when it was
}

// submit queues g and sees to it that it is sent. ctx is its caller's.
func (b *batcher) submit(ctx context.Context, g *group) {
	g.until, _ = ctx.Deadline()
	b.mu.Lock()
	b.queue = append(b.queue, g)
	b.queued += len(g.items)
	start := b.canSend()
	if start {
		b.inFlight++
	}
	b.mu.Unlock()
	if start {
		go supervise.Run(context.Background(), "redis batcher", func(context.Context) { b.sendLoop() })
	}
}

// canSend reports whether another call is to be sent.
func (b *batcher) canSend() bool {
	if b.inFlight == 0 || b.inFlight == maxInFlight {
		return b.inFlight == 0
	}
	return b.lastBatch < smallBatch || b.queued >= maxBatch || time.Since(b.lastSentAt) > slowCall
}

// sendLoop sends what is queued until nothing is.
func (b *batcher) sendLoop() {
	var batch []*group
	for {
		for range yields {
			runtime.Gosched()
		}
		if batch = b.take(batch[:0]); len(batch) == 0 {
			return
		}
		b.flush(batch)
	}
}

// take appends to batch the groups of the next call, at least one where any
// waits. Where none does, the loop that takes is over.
func (b *batcher) take(batch []*group) []*group {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken, requests, now := 0, 0, time.Now()
	for _, g := range b.queue {
		if len(batch) > 0 && requests+len(g.items) > maxBatch {
			break
		}
		taken++
		b.queued -= len(g.items)
		if !g.isGone(now) && g.state.CompareAndSwap(waiting, sent) {
			batch = append(batch, g)
			requests += len(g.items)
		}
	}
	rest := copy(b.queue, b.queue[taken:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	if len(batch) == 0 {
		b.inFlight--
		return nil
	}
	b.lastBatch, b.lastSentAt = requests, now
	return batch
}

// flush sends batch, in several calls only where one group is too large for
// one, and answers the callers, whatever happens: a panic becomes their error.
// After a call that failed no other is sent: its requests would only wait for
// the same outage.
func (b *batcher) flush(batch []*group) {
	ctx, cancel := context.WithDeadline(context.Background(), b.deadline(batch))
	items, until := b.stillWaiting(make([]*item, 0, maxBatch), batch, false)
	for try := 1; len(items) > 0 && b.sendAll(ctx, batch, items, until) && try < maxLate; try++ {
		items, until = b.stillWaiting(items[:0], batch, true)
	}
	var redirected []*group
	for _, g := range batch {
		if b.resend != nil && g.hasElsewhere() {
			g.redirected.Store(true)
			redirected = append(redirected, g)
			continue
		}
		g.done <- struct{}{}
	}
	if len(redirected) == 0 {
		cancel()
		return
	}
	items = items[:0]
	for _, g := range redirected {
		for i := range g.items {
			if g.items[i].elsewhere {
				items = append(items, &g.items[i])
			}
		}
	}
	go func() { // so that nobody else waits for another primary
		defer cancel()
		if err := supervise.Call("redis batcher", func() error { b.resend(ctx, items); return nil }); err != nil {
			fail(items, failure(err))
		}
		for _, g := range redirected {
			g.done <- struct{}{}
		}
	}()
}

// sendAll sends items of batch, which may be decided until an instant, and reports whether
// some came too late.
func (b *batcher) sendAll(ctx context.Context, batch []*group, items []*item, until time.Time) (late bool) {
	for len(items) > 0 {
		n := min(len(items), maxBatch)
		err := supervise.Call("redis batcher", func() error { return b.send(ctx, items[:n], until) })
		if b.judge != nil {
			b.judge(items[:n], err)
		}
		switch {
		case errors.Is(err, errLate):
			late = true
		case err != nil:
			fail(items, failure(err))
			return late
		case n < len(items):
			for _, g := range batch {
				g.partly.Store(true)
			}
		}
		items = items[n:]
	}
	return late
}

// stillWaiting appends to items those of batch whose callers still wait, only the ones that
// came too late if late is set, and returns when the first of these callers gives up, at
// most the timeout from now: a request that is decided later may be for nobody. Both come
// from one look at each group: one that gives up in between must not be sent with the
// deadline of the others. The items of callers that have given up fail.
func (b *batcher) stillWaiting(items []*item, batch []*group, late bool) ([]*item, time.Time) {
	now := time.Now()
	until := now.Add(b.timeout)
	for _, g := range batch {
		if g.isGone(now) {
			for i := range g.items {
				if !late { // or else it has the error already
					g.items[i].result.Err = unreachable(context.DeadlineExceeded)
				}
			}
			continue
		}
		before := len(items)
		for i := range g.items {
			if !late || errors.Is(g.items[i].result.Err, errLate) {
				items = append(items, &g.items[i])
			}
		}
		if len(items) > before && !g.until.IsZero() && g.until.Before(until) {
			until = g.until
		}
	}
	return items, until
}

// failure returns the error of requests whose call failed with err. A panic of
// this node says nothing about the primary.
func failure(err error) error {
	if errors.As(err, new(*supervise.Panic)) {
		return unanswerable(err)
	}
	return unreachable(err)
}

// deadline is when the last caller of batch gives up, and at most the timeout
// from now: an answer that comes later is for nobody, unless the call is judged by it.
func (b *batcher) deadline(batch []*group) time.Time {
	latest := time.Now().Add(b.timeout)
	if b.judge != nil {
		return latest
	}
	var last time.Time
	for _, g := range batch {
		if g.until.IsZero() || g.until.After(latest) {
			return latest
		}
		if g.until.After(last) {
			last = g.until
		}
	}
	return last
}

// fail makes err the answer to items.
func fail(items []*item, err error) {
	for _, it := range items {
		it.result = timestamplog.Result{Err: err}
	}
}
