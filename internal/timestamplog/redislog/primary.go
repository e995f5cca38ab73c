package redislog

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// primary is one server that decides: the only server, the primary that Sentinels name, or a
// primary of a Cluster. Each has its own batchers and its own breaker, so that a stalled
// primary does not delay requests to others.
type primary struct {
	name string
	// client is connected to this server, or to any server of the Cluster while the topology is
	// not known.
	client redis.UniversalClient
	// decides collects requests into calls of stint_decide, reserves those that need
	// stint_reserve, which is more expensive.
	decides, reserves *batcher
	// Hurried callers have batchers of their own: a call has the deadline of the first of its
	// callers, and the requests of the others would then often be late and sent again.
	hurriedDecides, hurriedReserves *batcher
	breaker                         breaker
	clock                           serverClock
	probed                          bool // true until p's outage is over; guarded by outages.mu
}

// newPrimary returns a primary whose batchers send their calls with send.
func (l *Log) newPrimary(name string, client redis.UniversalClient, send func(context.Context, *primary, *call) error) *primary {
	p := &primary{name: name, client: client}
	batch := func(form *callForm) *batcher {
		return &batcher{timeout: l.timeout, send: func(ctx context.Context, items []*item, until time.Time) error {
			return send(ctx, p, &call{form, items, until})
		}}
	}
	p.decides, p.reserves = batch(&decideCall), batch(&reserveCall)
	p.hurriedDecides, p.hurriedReserves = batch(&decideCall), batch(&reserveCall)
	for _, b := range []*batcher{p.hurriedDecides, p.hurriedReserves} {
		b.timeout = l.maxLatency
		b.judge = func(items []*item, err error) { l.outages.judgeCall(p, items, err) }
		b.dropped = p.breaker.leave
	}
	return p
}

// batcher returns the batcher for requests that need stint_reserve or not, of callers that are
// hurried or not.
func (p *primary) batcher(reserves, hurried bool) *batcher {
	switch {
	case hurried && reserves:
		return p.hurriedReserves
	case hurried:
		return p.hurriedDecides
	case reserves:
		return p.reserves
	}
	return p.decides
}

// callForm is one way to ask about several requests, each decided on its own.
type callForm struct {
	function string
	// arguments returns the number of keys of a call, and its keys and arguments. now is the
	// argument that set_now of the function library reads.
	arguments func(now string, items []*item) (keys int, args []any)
	// across is the form for items of several slots of one primary, nil if there is none.
	across *callForm
}

// call asks a primary about items, until the first of their callers gives up.
type call struct {
	form  *callForm
	items []*item
	until time.Time // zero for never
}

// part returns the call about some of its items.
func (c *call) part(items []*item) *call { return &call{c.form, items, c.until} }

var (
	decideCall  = callForm{function: functions.decide, arguments: arguments, across: &acrossCall}
	acrossCall  = callForm{function: functions.across, arguments: acrossArguments}
	reserveCall = callForm{function: functions.reservations, arguments: func(now string, items []*item) (int, []any) {
		return reservationsArguments(now, items, false)
	}}
)

// serverName returns the name of the server behind client for messages.
func serverName(client redis.UniversalClient) string {
	c, single := client.(*redis.Client)
	switch {
	case !single:
		return "the Redis Cluster"
	case c.Options().Addr == "FailoverClient": // the address that go-redis uses with Sentinels
		return "the primary that the Sentinels name"
	}
	return c.Options().Addr
}
