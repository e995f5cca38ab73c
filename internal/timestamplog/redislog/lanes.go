package redislog

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// form is one way to ask about requests, each as if it came alone.
type form struct {
	function string
	// arguments returns how many keys a call has, and its keys and arguments. now
	// overrides Redis's clock, empty for none.
	arguments func(now string, items []*item) (keys int, args []any)
}

var (
	plainForm   = form{functions.decide, arguments}
	carefulForm = form{functions.turns, func(now string, items []*item) (int, []any) {
		return turnsArguments(now, items, false)
	}}
)

// lanes are all that gather the requests of one form: in a Cluster one for each
// primary, and else a single one.
type lanes struct {
	single  *lane
	cluster *primaries // nil where there is no Cluster
}

func (l *Log) newLanes(form *form) *lanes {
	if cluster, clustered := l.client.(*redis.ClusterClient); clustered {
		return &lanes{cluster: l.newPrimaries(cluster, form)}
	}
	send := func(ctx context.Context, items []*item) error { return l.send(ctx, form, items) }
	return &lanes{single: &lane{send: send, timeout: l.timeout}}
}

// of returns the lane of a shard's requests.
func (ls *lanes) of(shard int) *lane {
	if ls.cluster != nil {
		return ls.cluster.lane(shard)
	}
	return ls.single
}
