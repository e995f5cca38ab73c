package redislog

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Fast path. Plain version: a call for each request, DecidePlain in
// export_test.go. Benchmark: BenchmarkDecide, 4.1 times as many checks a second
// with 64 callers. The pipelines of go-redis take 1.6 times the node's processor time
// and 1.3 times Redis's; its full duplex takes 2.3 and 1.3 times (BenchmarkAutoPipeline).
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
	// smallBatch and slowCall decide when a second call is worth it. Its requests need not wait
	// for the first call, but two calls then carry what one could have carried, and a call
	// costs as much as several of its requests. So the second call is sent if the first has
	// fewer than smallBatch requests, if the first has been in flight for longer than slowCall,
	// which a nearby Redis does not take, or if a full batch is queued.
	smallBatch = 16
	slowCall   = 300 * time.Microsecond
	// maxStalled is how many more calls a batcher with judge may have in flight, if the callers
	// of as many calls in flight have given up. So a stalled connection delays new requests no
	// longer than it delayed those that were sent over it.
	maxStalled = 2
	// yields is how often a sender yields to runnable goroutines before it takes the queue.
	// Under load these are callers that are about to queue a request. Without any, yielding
	// costs less than a microsecond.
	yields = 3
)

// batcher sends groups in calls of up to maxBatch requests, maxInFlight at a
// time, to one primary.
type batcher struct {
	// send sends items in a call that may be decided until a given time, and fills in their
	// results. It returns an error if it filled in no results, and errLate if that is the
	// result of some items. It only marks items as elsewhere if another primary has their logs.
	send func(ctx context.Context, items []*item, until time.Time) error
	// resend fills in the results of items that are elsewhere; nil if no other primary can have
	// their logs.
	resend  func(ctx context.Context, items []*item)
	timeout time.Duration // bounds each call
	// judge records the result of a call to the primary. nil if the callers do so. With judge,
	// calls go on until timeout even if their callers have given up.
	judge func(items []*item, err error)
	// dropped records requests whose callers' deadlines passed before they were sent. It is set
	// if judge is set.
	dropped func(requests int)

	mu         sync.Mutex
	deadlines  deadlines
	queue      []*group
	queued     int // requests in queue
	inFlight   int
	lastBatch  int       // requests in the call that was sent last
	lastSentAt time.Time // the time at which that call was sent
	// awaited has one time for each call in flight, if judge is set: when the last of its
	// callers gives up.
	awaited []time.Time
}

// submit queues g and starts a sender if needed. ctx is the context of g's caller.
func (b *batcher) submit(ctx context.Context, g *group) {
	g.until, _ = ctx.Deadline()
	g.watched = timestamplog.EndsAtDeadline(ctx)
	b.mu.Lock()
	if g.watched {
		b.watch(g)
	}
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

// canSend reports whether another call should be sent now.
func (b *batcher) canSend() bool {
	if b.inFlight <= 0 {
		return true
	}
	now := time.Now()
	inFlight := b.inFlight - b.stalled(now)
	if inFlight <= 0 || inFlight >= maxInFlight {
		return inFlight <= 0
	}
	return b.lastBatch < smallBatch || b.queued >= maxBatch || now.Sub(b.lastSentAt) > slowCall
}

// stalled returns how many of the calls in flight have no waiting caller, at most maxStalled.
func (b *batcher) stalled(now time.Time) int {
	n := 0
	for _, until := range b.awaited {
		if !until.IsZero() && now.After(until) {
			n++
		}
	}
	return min(n, maxStalled)
}

// sendLoop sends calls until the queue is empty.
func (b *batcher) sendLoop() {
	var batch []*group
	for {
		for range yields {
			runtime.Gosched()
		}
		if batch = b.take(batch[:0]); len(batch) == 0 {
			return
		}
		if b.judge == nil {
			b.flush(batch)
			continue
		}
		until := lastDeadline(batch)
		b.await(until)
		b.flush(batch)
		b.answered(until)
	}
}

// await adds a call to awaited. until is when its last caller gives up, zero for never.
func (b *batcher) await(until time.Time) {
	b.mu.Lock()
	b.awaited = append(b.awaited, until)
	b.mu.Unlock()
}

// answered removes a call from awaited.
func (b *batcher) answered(until time.Time) {
	b.mu.Lock()
	at := slices.Index(b.awaited, until)
	b.awaited = slices.Delete(b.awaited, at, at+1)
	b.mu.Unlock()
}

// lastDeadline returns when the last caller of batch gives up, zero for never.
func lastDeadline(batch []*group) (last time.Time) {
	for _, g := range batch {
		if g.until.IsZero() {
			return time.Time{}
		}
		if g.until.After(last) {
			last = g.until
		}
	}
	return last
}

// take appends the groups of the next call to batch, at least one if any is queued. Otherwise
// the send loop must end.
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
		} else {
			b.drop(g, now)
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

// drop records a group that is not sent, if that is because its caller's deadline has passed.
func (b *batcher) drop(g *group, now time.Time) {
	if b.dropped != nil && !g.until.IsZero() && !now.Before(g.until) {
		b.dropped(len(g.items))
	}
}

// flush sends batch and answers the callers in any case: a panic becomes their error. It needs
// several calls only if one group is too large for one. After a failed call it sends no other,
// which would only wait for the same outage.
func (b *batcher) flush(batch []*group) {
	ctx, cancel := context.WithDeadline(context.Background(), b.deadline(batch))
	items, until := b.stillWaiting(make([]*item, 0, maxBatch), batch, false)
	for try := 1; len(items) > 0 && b.sendAll(ctx, batch, items, until) && try < maxLate; try++ {
		items, until = b.stillWaiting(items[:0], batch, true)
	}
	var redirected []*group
	answered := batch[:0]
	for _, g := range batch {
		if b.resend != nil && g.hasElsewhere() {
			g.redirected.Store(true)
			redirected = append(redirected, g)
			continue
		}
		answered = append(answered, g)
	}
	b.finish(answered)
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
	go func() { // so that requests to this primary do not wait for another one
		defer cancel()
		if err := supervise.Call("redis batcher", func() error { b.resend(ctx, items); return nil }); err != nil {
			fail(items, failure(err))
		}
		b.finish(redirected)
	}()
}

// sendAll sends items of batch in calls that may be decided until a given time, and reports
// whether some reached the primary too late.
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

// stillWaiting appends to items those of batch whose callers still wait; if late is set, only
// those that reached the primary too late. It returns when the first of these callers gives up,
// and at most the timeout from now: later, possibly nobody waits for the requests any more. Both
// results come from one look at each group: the items of a caller that gives up in between must
// not be sent with the deadline of the others. The items of callers that have given up fail.
func (b *batcher) stillWaiting(items []*item, batch []*group, late bool) ([]*item, time.Time) {
	now := time.Now()
	until := now.Add(b.timeout)
	for _, g := range batch {
		if g.isGone(now) {
			if !late {
				b.drop(g, now)
			}
			for i := range g.items {
				if !late { // otherwise it has the error already
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

// failure returns the error of requests whose call failed with err. A panic of this node is no
// failure of the primary.
func failure(err error) error {
	if errors.As(err, new(*supervise.Panic)) {
		return unanswerable(err)
	}
	return unreachable(err)
}

// deadline returns when the last caller of batch gives up, and at most the timeout from now.
// With judge it returns the timeout, because a late answer is still judged.
func (b *batcher) deadline(batch []*group) time.Time {
	latest := time.Now().Add(b.timeout)
	if b.judge != nil {
		return latest
	}
	if last := lastDeadline(batch); !last.IsZero() && last.Before(latest) {
		return last
	}
	return latest
}

// fail makes err the answer to items.
func fail(items []*item, err error) {
	for _, it := range items {
		it.result = timestamplog.Result{Err: err}
	}
}
