package redislog

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// A call that carries many requests costs Redis and the network a fraction of
// as many calls, so requests that come while calls are under way go together
// in the next one. A request that comes when nothing is under way goes at once.
const (
	// mostKeys bounds the requests in one call, during which Redis does
	// nothing else.
	mostKeys = 128
	// mostFlights is how many calls of one lane are under way at a time: while
	// Redis works on one, the next is already there.
	mostFlights = 2
	// fewKeys and slowCall say when a second call pays. What goes in it does not
	// wait for the first, but the two share what one could have carried, and a
	// call costs all sides as much as several of its requests. So the second goes
	// where the first carries only a few, is under way for longer than a call
	// takes to a Redis nearby, or leaves behind as much as a call can carry.
	fewKeys  = 16
	slowCall = 300 * time.Microsecond
	// asides is how often a flight steps aside for the goroutines that are ready to
	// run, before it takes what is queued: under load these are callers that are
	// about to ask. Where there are none, it costs less than a microsecond.
	asides = 3
)

// item is one request on its way to Redis.
type item struct {
	name         string
	shard        int
	stack        string // as the function library reads it
	rules        rules.Stack
	cost         uint16
	peek, detail bool
	counted      bool // by a counter, whose waits may be long
	// What stint_decide knows nothing of.
	maxWait int64
	id      string
	result  timestamplog.Result
}

// group is the requests of one Decide that share a lane. They are answered in
// their order, so they stay together.
type group struct {
	items []item
	state atomic.Int32
	done  chan struct{} // takes one value when the items have their results
	until time.Time     // when its caller gives up; zero for never
	home  *groups
}

// The states of a group. A caller who gives up a waiting group takes it back,
// so that nothing is charged; one that has been sent is answered to nobody.
const (
	waiting int32 = iota
	sent
	takenBack
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
	return g
}

// wait returns nil once the items have their results, or why the caller no
// longer waits.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		g.state.CompareAndSwap(waiting, takenBack)
		return unreachable(ctx.Err())
	}
}

// answer returns the i-th result, or err where the caller did not wait for it.
func (g *group) answer(i int, err error) timestamplog.Result {
	if err != nil {
		return timestamplog.Result{Err: err}
	}
	return g.items[i].result
}

// release lets the group be used again, unless its caller gave up, in which
// case a flight may still write to it.
func (g *group) release(err error) {
	if err != nil {
		return
	}
	clear(g.items)
	g.home.pool.Put(g)
}

// lane sends groups in calls of up to mostKeys requests, mostFlights at a time.
type lane struct {
	send    func(ctx context.Context, items []*item) error
	timeout time.Duration // bounds each call
	primary *redis.Client // whose lane it is in a Cluster, else nil

	mu      sync.Mutex
	queue   []*group
	queued  int // requests in queue
	flights int
	carries int       // requests in the call that was sent last,
	left    time.Time // and when it was
}

// submit queues g and sees to it that it is sent. ctx is its caller's.
func (l *lane) submit(ctx context.Context, g *group) {
	g.until, _ = ctx.Deadline()
	l.mu.Lock()
	l.queue = append(l.queue, g)
	l.queued += len(g.items)
	start := l.mayFly()
	if start {
		l.flights++
	}
	l.mu.Unlock()
	if start {
		go supervise.Run(context.Background(), "redis batcher", func(context.Context) { l.fly() })
	}
}

// mayFly reports whether another flight is to begin.
func (l *lane) mayFly() bool {
	if l.flights == 0 || l.flights == mostFlights {
		return l.flights == 0
	}
	return l.carries < fewKeys || l.queued >= mostKeys || time.Since(l.left) > slowCall
}

// fly sends what is queued until nothing is.
func (l *lane) fly() {
	var batch []*group
	for {
		for range asides {
			runtime.Gosched()
		}
		if batch = l.take(batch[:0]); len(batch) == 0 {
			return
		}
		l.flush(batch)
	}
}

// take appends to batch the groups of the next call, at least one where any
// waits. Where none does, the flight is over.
func (l *lane) take(batch []*group) []*group {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken, keys := 0, 0
	for _, g := range l.queue {
		if len(batch) > 0 && keys+len(g.items) > mostKeys {
			break
		}
		taken++
		l.queued -= len(g.items)
		if g.state.CompareAndSwap(waiting, sent) {
			batch = append(batch, g)
			keys += len(g.items)
		}
	}
	rest := copy(l.queue, l.queue[taken:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	if len(batch) == 0 {
		l.flights--
		return nil
	}
	l.carries, l.left = keys, time.Now()
	return batch
}

// flush sends batch, in several calls only where one group is too large for
// one, and answers the callers, whatever happens: a panic becomes their error.
// After a call that failed no other is sent: its requests would only wait for
// the same outage.
func (l *lane) flush(batch []*group) {
	ctx, cancel := context.WithDeadline(context.Background(), l.deadline(batch))
	defer cancel()
	var items []*item
	for _, g := range batch {
		for i := range g.items {
			items = append(items, &g.items[i])
		}
	}
	for len(items) > 0 {
		n := min(len(items), mostKeys)
		if err := supervise.Call("redis batcher", func() error { return l.send(ctx, items[:n]) }); err != nil {
			err = unreachable(err)
			for _, it := range items {
				it.result = timestamplog.Result{Err: err}
			}
			break
		}
		items = items[n:]
	}
	for _, g := range batch {
		g.done <- struct{}{}
	}
}

// deadline is when the last caller of batch gives up, and at most the timeout
// from now: an answer that comes later is for nobody.
func (l *lane) deadline(batch []*group) time.Time {
	most := time.Now().Add(l.timeout)
	var last time.Time
	for _, g := range batch {
		if g.until.IsZero() || g.until.After(most) {
			return most
		}
		if g.until.After(last) {
			last = g.until
		}
	}
	return last
}
