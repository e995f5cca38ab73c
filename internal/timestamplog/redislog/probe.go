package redislog

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// probeTimeout bounds one probe.
const probeTimeout = time.Second

// Probe asks every primary whether it decides, and counts a failure like that of a request, so
// that a node without requests learns of outages too. It repeats a failed probe until an outage
// begins. It skips primaries with a known outage, which awaitRecovery probes.
func (l *Log) Probe(ctx context.Context) {
	if l.topology != nil {
		l.topology.look(ctx)
	}
	for _, p := range l.primaries() {
		for range failureThreshold {
			if p.breaker.open.Load() || ctx.Err() != nil {
				break
			}
			err := l.probe(ctx, p)
			l.outages.judgeError(ctx, p, err, 0)
			if err == nil {
				break
			}
		}
	}
}

// Unreachable returns the time since which no primary decides, zero if any does.
func (l *Log) Unreachable() time.Time {
	var since time.Time
	for _, p := range l.primaries() {
		outage, isOpen := p.breaker.state()
		if !isOpen {
			return time.Time{}
		}
		if outage.Since.After(since) {
			since = outage.Since
		}
	}
	return since
}

// primaries returns every primary that has shards.
func (l *Log) primaries() []*primary {
	if l.topology == nil {
		return []*primary{l.single}
	}
	shards := l.topology.shards.Load()
	if shards == nil {
		return []*primary{l.topology.unknown}
	}
	var all []*primary
	known := map[*primary]bool{}
	for _, p := range shards {
		if !known[p] {
			known[p] = true
			all = append(all, p)
		}
	}
	return all
}

// probe asks p about an empty stack, which only a server that can decide answers and which
// reads and writes nothing. It returns nil if p decides, or if other primaries have its shards
// by now.
func (l *Log) probe(ctx context.Context, p *primary) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	shard := 0
	if l.topology != nil {
		l.refreshTopology()
		l.topology.look(ctx)
		var has bool
		if shard, has = l.topology.shardOf(p); !has {
			return nil
		}
	}
	asked := &item{shard: shard, name: logName(l.prefix, shard, timestamplog.LogID{Key: "probe"}), stack: "0 0", cost: 1, peek: true}
	keys, args := decideCall.arguments(l.override(), []*item{asked})
	reply, err := functions.call(ctx, p.client, decideCall.function, keys, args...)
	if err == nil {
		err = readReply(reply, []*item{asked}, new(serverClock))
	}
	if err == nil || l.topology != nil && wasNotDone(err) || isSlotError(err) || isMissing(err) {
		return nil
	}
	return unreachable(err)
}
