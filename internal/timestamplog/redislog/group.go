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
	stack        string // in the format of the function library
	rules        rules.Stack
	cost         uint64
	peek, detail bool
	counted      bool // whether a counter counts it; its waits may be long
	uncharged    bool // Request.Uncharged
	// Only stint_reserve supports the next six fields.
	always  bool   // Request.ChargeAlways
	value   uint64 // Request.Value, 0 for none
	hold    int64  // Request.Hold
	source  string // Request.Source, of a request with hold
	maxWait int64
	id      string
	// elsewhere says that the primary did nothing because another has the log.
	elsewhere bool
	result    timestamplog.Result
}

// group is the requests of one Decide that share a batcher. They stay together, because they
// must be answered in order.
type group struct {
	items []item
	state atomic.Int32
	// redirected says that the primary answered and that some requests were sent on to another
	// primary.
	redirected atomic.Bool
	// partly says that the primary answered some but not all of the calls for this group.
	partly atomic.Bool
	done   chan struct{} // receives one value when the items have their results
	until  time.Time     // when its caller gives up; zero for never
	home   *groups
	// watched says that the batcher's deadlines end the wait of the caller, at until. They set
	// expired when they do so. Without watched, expired and at are not used.
	watched, expired bool
	at               int // index in deadlines.groups, -1 after removal
}

// The states of a group. A caller that gives up sets it to cancelled: a waiting group is then
// never sent, and a sent one is not sent again.
const (
	waiting int32 = iota
	sent
	cancelled
)

// groups is a pool of groups. The zero value is ready to use. It is safe for concurrent use.
type groups struct{ pool sync.Pool }

// get returns a group with n empty items.
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

// wait returns nil once the items have their results, or the reason why the caller no longer
// waits.
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

// isGone reports whether the caller has given up.
func (g *group) isGone(now time.Time) bool {
	return g.state.Load() == cancelled || !g.until.IsZero() && !now.Before(g.until)
}

// answer returns the i-th result, or err if the caller did not wait for it.
func (g *group) answer(i int, err error) timestamplog.Result {
	if err != nil {
		return timestamplog.Result{Err: err}
	}
	return g.items[i].result
}

func (g *group) hasElsewhere() bool {
	return slices.ContainsFunc(g.items, func(it item) bool { return it.elsewhere })
}

// release returns the group to its pool, unless its caller gave up: a sender may then still
// write to it.
func (g *group) release(err error) {
	if err != nil {
		return
	}
	clear(g.items)
	g.home.pool.Put(g)
}
