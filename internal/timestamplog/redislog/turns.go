package redislog

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

var _ timestamplog.Turns = (*Log)(nil)

// needCare reports whether any request is one for stint_turns: stint_decide knows
// no waiting and no IDs.
func needCare(requests []timestamplog.Request) bool {
	for i := range requests {
		if requests[i].MaxWait > 0 || requests[i].ID != "" {
			return true
		}
	}
	return false
}

// careful is one request on its way to stint_turns.
type careful struct {
	item
	maxWait int64
	id      string
}

func (l *Log) fillCareful(c *careful, q *timestamplog.Request) (shard int) {
	shard = l.fill(&c.item, q)
	c.maxWait, c.id = q.MaxWait, q.ID
	if c.peek {
		c.id = "" // a peek neither looks for one nor leaves one
	}
	return shard
}

// decideCarefully asks in calls of their own, those of one slot together and in
// their order.
func (l *Log) decideCarefully(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	asked := make([]careful, len(requests))
	bySlot := map[int][]int{}
	for i := range requests {
		slot := l.slotOf(l.fillCareful(&asked[i], &requests[i]))
		bySlot[slot] = append(bySlot[slot], i)
	}
	var group sync.WaitGroup
	for _, places := range bySlot {
		group.Go(func() {
			for part := range slices.Chunk(places, mostKeys) {
				items := make([]*careful, len(part))
				for n, i := range part {
					items[n] = &asked[i]
				}
				l.sendCarefully(ctx, items, false)
			}
		})
	}
	group.Wait()
	for i := range asked {
		results[i] = asked[i].result
	}
}

// sendCarefully asks Redis about items and fills in their results, whose errors
// say what became of those that were not answered. Requests are taken apart as in
// send unless they are to be decided as one.
func (l *Log) sendCarefully(ctx context.Context, items []*careful, together bool) {
	keys, args := carefulArguments(l.now(), items, together)
	reply, err := l.callWhole(ctx, functions.turns, keys, args, together || len(items) == 1)
	if err != nil && isSplit(err) && !together && len(items) > 1 {
		for i := range items {
			l.sendCarefully(ctx, items[i:i+1], false)
		}
		return
	}
	if err == nil {
		plain := make([]*item, len(items))
		for i, c := range items {
			plain[i] = &c.item
		}
		err = readReply(reply, plain)
	}
	if err != nil {
		for _, c := range items {
			c.result = timestamplog.Result{Err: unreachable(err)}
		}
	}
}

// splitPause is how long a call waits before it is repeated that found the
// keys of its slot on two nodes.
const splitPause = 10 * time.Millisecond

// callWhole calls a function. While a Cluster moves a slot and finds some of the
// keys here and some there, Redis refuses a call and does nothing; one that
// cannot be taken apart is repeated until ctx ends.
func (l *Log) callWhole(ctx context.Context, function string, keys int, args []any, repeat bool) (any, error) {
	for {
		reply, err := functions.call(ctx, l.client, function, keys, args...)
		if err == nil || !isSplit(err) {
			if err != nil {
				l.lookAround()
			}
			return reply, err
		}
		if !repeat {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(splitPause):
		}
	}
}

// carefulArguments returns how many keys a call of stint_turns has, and its keys
// and arguments.
func carefulArguments(now string, items []*careful, together bool) (keys int, args []any) {
	for _, c := range items {
		args = append(args, c.name)
		if c.id != "" {
			args = append(args, idsName(c.name))
		}
	}
	keys = len(args)
	mode := ""
	if together {
		mode = "together"
	}
	args = append(args, now, mode)
	for _, c := range items {
		packed := binary.BigEndian.AppendUint16(nil, c.cost)
		packed = binary.BigEndian.AppendUint32(append(packed, flags(&c.item)), uint32(c.maxWait))
		args = append(args, packed, c.stack, c.id)
	}
	return keys, args
}

// DecideAll implements timestamplog.Turns.
func (l *Log) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	items := make([]*careful, len(requests))
	first := 0
	for i := range requests {
		items[i] = new(careful)
		slot := l.slotOf(l.fillCareful(items[i], &requests[i]))
		if i == 0 {
			first = slot
		} else if slot != first {
			return timestamplog.ErrApart
		}
	}
	l.sendCarefully(ctx, items, true)
	for i, c := range items {
		if c.result.Err != nil {
			return c.result.Err
		}
		results[i] = c.result
	}
	return nil
}

// GiveBack implements timestamplog.Turns. Like Reset it tells every WatchResets,
// so that no node goes on refusing what there is room for now.
func (l *Log) GiveBack(ctx context.Context, turn timestamplog.Turn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := logName(l.prefix, shardOf(turn.Key), turn.Ref)
	reply, err := l.callWhole(ctx, functions.giveBack, 2, []any{name, idsName(name), l.now(), turn.At, turn.Cost, turn.ID}, true)
	if err != nil {
		return false, unreachable(err)
	}
	made, ok := reply.(int64)
	if !ok {
		return false, unreachable(fmt.Errorf("%w: %T", errReply, reply))
	}
	if made == 0 {
		return false, nil
	}
	l.tellReset(ctx, turn.Ref)
	return true, nil
}
