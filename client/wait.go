package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errPeekWaits = errors.New("client: a peek reserves nothing that one could wait for; ask without waiting")

// Wait reserves a turn for q and returns once it has come: the request may be
// done then. q.MaxWait bounds the wait in all; 0 means as long as ctx lasts. A
// turn further ahead than one check may reserve, or than a queue holds, is asked
// for again when it has come nearer, and so is a block's end. Turns come in the
// order in which they were reserved, by whomever. q.Detail is DetailRules
// whatever it says.
//
// A decision that is not Allowed says that the turn would come too late; it is
// returned at once. Where ctx ends first, Wait returns its error at once and
// gives the turn back in the background, also where the answer that reserves it
// is still on its way; see Close. Other errors are those of Check. What FailOpen
// allows is allowed without a wait.
func (c *Client) Wait(ctx context.Context, q Check) (*Decision, error) {
	if q.Peek {
		return nil, errPeekWaits
	}
	return await(ctx, c, q.MaxWait, func(ctx context.Context, maxWait time.Duration) (*Decision, error) {
		asked := q
		asked.MaxWait, asked.Detail = maxWait, DetailRules // which says when the turn would come
		return c.Check(ctx, asked)
	})
}

// WaitAll reserves one common turn for several keys and returns once it has come,
// as Wait does for one.
func (c *Client) WaitAll(ctx context.Context, q JointCheck) (*JointDecision, error) {
	if q.Peek {
		return nil, errPeekWaits
	}
	return await(ctx, c, q.MaxWait, func(ctx context.Context, maxWait time.Duration) (*JointDecision, error) {
		asked := q
		asked.MaxWait, asked.Detail = maxWait, DetailRules // which says when the turn would come
		return c.CheckAll(ctx, asked)
	})
}

// answered is a decision of either kind.
type answered interface {
	common() *Answer
	// turnIn returns how far ahead the rules see the request's turn, 0 where they are
	// not known.
	turnIn() time.Duration
}

func (a *Answer) common() *Answer { return a }

func (d *Decision) turnIn() time.Duration {
	var turn time.Duration
	for _, r := range d.Rules {
		turn = max(turn, r.Reset)
	}
	return turn
}

func (d *JointDecision) turnIn() time.Duration {
	var turn time.Duration
	for i := range d.Parts {
		turn = max(turn, d.Parts[i].turnIn())
	}
	return turn
}

// question asks for a turn within maxWait.
type question[D answered] func(ctx context.Context, maxWait time.Duration) (D, error)

// await asks for a turn within limit, or within the life of ctx where limit is
// 0, and sleeps until it has come.
func await[D answered](ctx context.Context, c *Client, limit time.Duration, ask question[D]) (D, error) {
	var none D
	deadline, bounded := lastTurn(ctx, limit)
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
			if err := sleep(ctx, a.Wait); err != nil && a.Wait > 0 {
				c.leave(ctx, a.Turn)
				return none, fmt.Errorf("waiting for a turn: %w", err)
			}
			return d, nil
		}
		if !worthAsking(d, deadline, bounded) {
			return d, nil
		}
		if err := sleep(ctx, a.RetryAfter); err != nil {
			return none, fmt.Errorf("waiting for a turn: %w", err)
		}
	}
}

// lastTurn returns the latest instant at which a turn is of use, false where
// there is none.
func lastTurn(ctx context.Context, limit time.Duration) (time.Time, bool) {
	deadline, bounded := ctx.Deadline()
	if limit > 0 {
		if own := time.Now().Add(limit); !bounded || own.Before(deadline) {
			deadline, bounded = own, true
		}
	}
	return deadline, bounded
}

// worthAsking reports whether a refused request may have its turn in time. Its
// RetryAfter alone does not tell: it says when the turn would be as near as was
// offered, or as a queue holds.
func worthAsking(d answered, deadline time.Time, bounded bool) bool {
	a := d.common()
	if a.Outage != nil || a.RetryAfter <= 0 {
		return false
	}
	return !bounded || time.Now().Add(max(a.RetryAfter, d.turnIn())).Before(deadline)
}

// askWhole asks, and returns at once where ctx ends. The question goes on then,
// since it may have reserved a turn whose handle only its answer knows, and
// the turn is given back.
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
				c.leave(ctx, d.common().Turn)
			}
		}
	})
	select {
	case r := <-results:
		return r.d, r.err
	case <-ctx.Done():
		var none D
		return none, fmt.Errorf("asking for a turn: %w", ctx.Err())
	}
}
