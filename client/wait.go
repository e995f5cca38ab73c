package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errPeekWaits = errors.New("client: a peek cannot wait, since it reserves nothing; use Check")

// Wait makes a reservation for q and returns at the reserved time, when the request may be
// made. It makes no reservation for later than q.MaxWait from its start; 0 means until ctx ends. The
// time that the server takes to answer is bounded by ctx and WithTimeout only. If no reservation is
// possible yet, because its time is too far ahead, the queue is full or the key is
// blocked, Wait asks again later. Reservations of all clients are served in the order in
// which they were made. q.Detail is ignored: it is always DetailRules.
//
// If the error is nil, the decision is Allowed. If the reservation would be too late, Wait
// returns a *Refused at once and reserves nothing. If ctx ends first, Wait returns its
// error at once and cancels the reservation in the background, even if the answer that
// makes it has not arrived yet; see Close. Other errors are those of Check. What FailOpen
// allows is allowed without a wait.
func (c *Client) Wait(ctx context.Context, q Check) (*Decision, error) {
	if q.Peek {
		return nil, errPeekWaits
	}
	d, err := await(ctx, c, q.MaxWait, func(ctx context.Context, maxWait time.Duration) (*Decision, error) {
		asked := q
		asked.MaxWait, asked.Detail = maxWait, DetailRules // which says when the reservation would come
		return c.Check(ctx, asked)
	})
	if err == nil && !d.Allowed {
		return nil, &Refused{Decision: d}
	}
	return d, err
}

// WaitAll makes one reservation for several keys and returns at the reserved time, as Wait
// does for one. A *Refused then also has the combined decision.
func (c *Client) WaitAll(ctx context.Context, q CombinedCheck) (*CombinedDecision, error) {
	if q.Peek {
		return nil, errPeekWaits
	}
	d, err := await(ctx, c, q.MaxWait, func(ctx context.Context, maxWait time.Duration) (*CombinedDecision, error) {
		asked := q
		asked.MaxWait, asked.Detail = maxWait, DetailRules // which says when the reservation would come
		return c.CheckAll(ctx, asked)
	})
	if err == nil && !d.Allowed {
		return nil, &Refused{Decision: d.refused(), Combined: d}
	}
	return d, err
}

// answered is a decision of either kind.
type answered interface {
	common() *Answer
	// reservationIn returns how far ahead the rules see the request's reservation, 0 if they are
	// not known.
	reservationIn() time.Duration
}

func (a *Answer) common() *Answer { return a }

func (d *Decision) reservationIn() time.Duration {
	var reservation time.Duration
	for _, r := range d.Rules {
		reservation = max(reservation, r.RetryAfter)
	}
	return reservation
}

func (d *CombinedDecision) reservationIn() time.Duration {
	var reservation time.Duration
	for i := range d.Decisions {
		reservation = max(reservation, d.Decisions[i].reservationIn())
	}
	return reservation
}

// refused returns the decision of the key that makes the others wait longest.
func (d *CombinedDecision) refused() *Decision {
	longest := &Decision{Answer: d.Answer}
	for i := range d.Decisions {
		one := &d.Decisions[i]
		if one.Allowed {
			continue
		}
		if longest.Key == "" || one.RetryAfter == Never || longest.RetryAfter != Never && one.RetryAfter > longest.RetryAfter {
			longest = one
		}
	}
	return longest
}

// question asks for a reservation within maxWait.
type question[D answered] func(ctx context.Context, maxWait time.Duration) (D, error)

// await asks for a reservation within limit, or within the life of ctx where limit is
// 0, and sleeps until it has come.
func await[D answered](ctx context.Context, c *Client, limit time.Duration, ask question[D]) (D, error) {
	var none D
	deadline, bounded := lastReservation(ctx, limit)
	for {
		left := MaxWait
		if bounded {
			left = min(left, max(0, time.Until(deadline)))
		}
		d, err := askWhole(ctx, c, left, ask)
		if err != nil {
			return none, err
		}
		a := d.common()
		if a.Allowed {
			if err := sleep(ctx, a.Delay); err != nil && a.Delay > 0 {
				c.leave(ctx, a.Reservation)
				return none, fmt.Errorf("waiting for a reservation: %w", err)
			}
			return d, nil
		}
		if !worthAsking(d, deadline, bounded) {
			return d, nil
		}
		if err := sleep(ctx, a.RetryAfter); err != nil {
			return none, fmt.Errorf("waiting for a reservation: %w", err)
		}
	}
}

// lastReservation returns the latest instant at which a reservation is of use, false where
// there is none.
func lastReservation(ctx context.Context, limit time.Duration) (time.Time, bool) {
	deadline, bounded := ctx.Deadline()
	if limit > 0 {
		if own := time.Now().Add(limit); !bounded || own.Before(deadline) {
			deadline, bounded = own, true
		}
	}
	return deadline, bounded
}

// worthAsking reports whether a refused request may have its reservation in time. Its
// RetryAfter alone does not decide it: it is the time after which a reservation would be
// within max_wait, or within what a queue holds.
func worthAsking(d answered, deadline time.Time, bounded bool) bool {
	a := d.common()
	if a.Outage != nil || a.RetryAfter <= 0 {
		return false
	}
	return !bounded || time.Now().Add(max(a.RetryAfter, d.reservationIn())).Before(deadline)
}

// askWhole asks, and returns at once where ctx ends. The question goes on then,
// since it may have made a reservation whose handle only its answer knows, and
// the reservation is cancelled.
func askWhole[D answered](ctx context.Context, c *Client, maxWait time.Duration, ask question[D]) (D, error) {
	type result struct {
		d   D
		err error
	}
	// Either it is taken from here or the asking side sees the end of ctx: a
	// channel without a buffer makes it one of the two.
	results := make(chan result)
	c.background.Go(func() {
		d, err := ask(detached(ctx), maxWait)
		select {
		case results <- result{d, err}:
		case <-ctx.Done():
			if err == nil && d.common().Allowed {
				c.leave(ctx, d.common().Reservation)
			}
		}
	})
	select {
	case r := <-results:
		return r.d, r.err
	case <-ctx.Done():
		var none D
		return none, fmt.Errorf("asking for a reservation: %w", ctx.Err())
	}
}
