package redislog

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// primary is one server that decides: the only one, the one that Sentinels
// name, or one of a Cluster. Each has batchers and a breaker of its own, so that
// one that stalls delays nobody who asks another.
type primary struct {
	name string
	// client is connected to this server; while the topology is not known, to any
	// server of the Cluster.
	client redis.UniversalClient
	// Batchers gather requests into calls, those that stint_decide can answer
	// and those that only stint_reserve can, which is dearer.
	decides, reserves *batcher
	// Those of hurried callers have their own: a call has the deadline of the first
	// of its callers, by which others would be sent back and asked again.
	hurriedDecides, hurriedReserves *batcher
	breaker                         breaker
	clock                           serverClock
	probed                          bool // until its outage is over; under the mu of outages
}

// newPrimary returns a primary whose batchers send calls by send.
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

// batcher returns the one for requests that need stint_reserve or do not, of callers
// that are hurried or are not.
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

// callForm is one way to ask about requests, each as if it came alone.
type callForm struct {
	function string
	// arguments returns how many keys a call has, and its keys and arguments. now
	// is what set_now of the function library reads.
	arguments func(now string, items []*item) (keys int, args []any)
}

// call asks a primary about items, until the first of its callers gives up.
type call struct {
	form  *callForm
	items []*item
	until time.Time // zero for ever
}

// part returns the call about some of its items.
func (c *call) part(items []*item) *call { return &call{c.form, items, c.until} }

var (
	decideCall  = callForm{functions.decide, arguments}
	reserveCall = callForm{functions.reservations, func(now string, items []*item) (int, []any) {
		return reservationsArguments(now, items, false)
	}}
)

// serverName returns what people call the server that client reaches.
func serverName(client redis.UniversalClient) string {
	c, single := client.(*redis.Client)
	switch {
	case !single:
		return "the Redis Cluster"
	case c.Options().Addr == "FailoverClient": // what go-redis uses as the address
		return "the primary that the Sentinels name"
	}
	return c.Options().Addr
}
