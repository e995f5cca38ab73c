package redislog

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
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
	// watched says that a deadlines ends the wait of its caller, at until. The others are
	// that deadlines' own.
	watched, expired bool
	at               int // its place in the list of deadlines, -1 when it has left it
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
	g.watched, g.expired = false, false
	return g
}

// wait returns nil once the items have their results, or why the caller no
// longer waits.
func (g *group) wait(ctx context.Context) error {
	if g.watched {
		if <-g.done; g.expired {
			return unreachable(context.DeadlineExceeded)
		}
		return nil
	}
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
