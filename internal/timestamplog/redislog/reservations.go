package redislog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// needsReserve reports whether any request needs stint_reserve. stint_decide supports no waiting,
// no IDs, no charging of refused requests, no values and no cost above two bytes.
func needsReserve(requests []timestamplog.Request) bool {
	for i := range requests {
		if requests[i].MaxWait > 0 || requests[i].ID != "" || requests[i].ChargeAlways || requests[i].Value != 0 || requests[i].Cost > math.MaxUint16 {
			return true
		}
	}
	return false
}

// decideAlone asks about each of items in a call of its own and fills in their results. It works
// even while a Cluster moves their slot.
func (l *Log) decideAlone(ctx context.Context, items []*item) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	until, _ := ctx.Deadline()
	for i := range items {
		if err := l.sendAtomic(ctx, l.primaryOf(items[i].shard), items[i:i+1], until, false); err != nil {
			fail(items[i:i+1], unanswerable(err))
		}
	}
}

// sendAtomic asks about items, which belong to one shard of p, in one call and fills in their
// results. The call may be decided until a given time.
func (l *Log) sendAtomic(ctx context.Context, p *primary, items []*item, until time.Time, together bool) error {
	if err := l.readClock(ctx, p); err != nil {
		return err
	}
	for try := 1; ; try++ {
		keys, args := reservationsArguments(l.now(&p.clock, until), items, together)
		reply, err := l.callAtomic(ctx, functions.reservations, keys, args)
		if err != nil {
			return err
		}
		if err := readReply(reply, items, &p.clock); !errors.Is(err, errLate) || try == maxLate || !time.Now().Before(until) {
			return err
		}
	}
}

// splitPause is the pause before a call is retried because the keys of its slot were on two
// nodes.
const splitPause = 10 * time.Millisecond

// callAtomic calls a function. While a Cluster moves a slot, some keys of a call may be on one
// node and some on another. Redis then refuses the call and does nothing. Since the call cannot
// be split, callAtomic retries it until ctx ends.
func (l *Log) callAtomic(ctx context.Context, function string, keys int, args []any) (any, error) {
	var split error // the error of the previous try
	for {
		reply, err := functions.call(ctx, l.client, function, keys, args...)
		switch {
		case err == nil:
			return reply, nil
		case isSlotError(err):
			split = err
		case split != nil && isTimeout(err):
			return nil, requestError{slotUnavailable(split)}
		default:
			l.refreshTopology()
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, requestError{slotUnavailable(split)}
		case <-time.After(splitPause):
		}
	}
}

// DecideAll implements timestamplog.Log.
func (l *Log) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	if err := l.shards.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	items := make([]*item, len(requests))
	first := 0
	for i := range requests {
		items[i] = new(item)
		slot := l.slotOf(l.fill(items[i], &requests[i]))
		if i == 0 {
			first = slot
		} else if slot != first {
			return timestamplog.ErrCrossSlot
		}
	}
	p := l.primaryOf(items[0].shard)
	if p.breaker.refuses(len(items)) {
		return errOutage
	}
	if err := p.decideTogether(ctx, l, items); err != nil {
		return err
	}
	for i, it := range items {
		if it.result.Err != nil {
			l.requests.observe(it.result.Err)
			return it.result.Err
		}
		results[i] = it.result
	}
	return nil
}

// decideTogether asks p, a primary of l, about items in one call that charges all or none. It
// fills in their results and records a success or a failure of p.
func (p *primary) decideTogether(ctx context.Context, l *Log, items []*item) error {
	until, _ := ctx.Deadline()
	if !isHurried(ctx, l.maxLatency) {
		err := l.sendAtomic(ctx, p, items, until, true)
		if err != nil {
			err = unreachable(err)
		}
		l.outages.judgeError(ctx, p, err, len(items))
		return err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.maxLatency)
	done := make(chan error, 1)
	go func() { // the call goes on if its caller gives up
		defer cancel()
		err := supervise.Call("redis call", func() error { return l.sendAtomic(whole, p, items, until, true) })
		l.outages.judgeCall(p, items, err)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			err = failure(err)
		}
		return err
	case <-ctx.Done():
		return unreachable(ctx.Err())
	}
}

// Cancel implements timestamplog.Log. Like Reset it publishes to every WatchResets, so that no
// node continues to refuse requests for which there is room now.
func (l *Log) Cancel(ctx context.Context, reservation timestamplog.Reservation) (bool, error) {
	if err := l.shards.check(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := l.nameOf(reservation.LogID)
	reply, err := l.callAtomic(ctx, functions.cancelReservation, 3, []any{
		name, idsName(name), cancelledName(name, reservation), l.override(), reservation.At, reservation.Cost, reservation.ID, reservation.Counts,
	})
	if err != nil {
		return false, unreachable(err)
	}
	freed, ok := reply.(int64)
	if !ok {
		return false, unreachable(fmt.Errorf("%w: %T", errReply, reply))
	}
	if freed == 0 {
		return false, nil
	}
	l.publishReset(ctx, reservation.LogID)
	return true, nil
}
