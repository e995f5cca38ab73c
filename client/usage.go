package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// AsHeld is the amount of a settlement that charges what was held.
const AsHeld int64 = -1

// HeldCost is what an allowed check holds until it is settled, released or expires.
type HeldCost struct {
	// Handle settles it, by any client of the same Stint.
	Handle string
	// ExpiresAt is when it expires, on Stint's clock.
	ExpiresAt time.Time
	// length is for how long it was made.
	length time.Duration
}

// setLength sets for how long the hold was made, if the check says so.
func (h *HeldCost) setLength(asked time.Duration) {
	if h == nil {
		return
	}
	if asked > 0 {
		h.length = asked
	}
	h.length = max(h.length, time.Second)
}

// Settled says what became of a hold.
type Settled struct {
	Held int64 `json:"held"` // what was held
	Cost int64 `json:"cost"` // what is charged for it, or held
	// Over is how much of Cost is beyond a limit, 0 for nothing.
	Over int64 `json:"over"`
	// ExpiresAt is when the hold expires now; zero once it has ended.
	ExpiresAt time.Time `json:"expires_at"`
}

// fits returns an error unless it says what became of a hold.
func (*Settled) fits(status int) error {
	if status != http.StatusOK {
		return fmt.Errorf("an answer with status %d about a hold", status)
	}
	return nil
}

const pathHolds = "/v1/holds/"

// Settle ends a hold: it charges what was used, AsHeld for what was held. What was not used is returned
// as if it had never been charged; what was used beyond the hold is charged in full. It may be
// repeated. The error is a *Problem with the code "settled" if the hold was settled with another amount,
// "expired" if it expired before, and "not_found" for an unknown handle; an *OutageError regardless of
// WithOutage; or the error of ctx.
func (c *Client) Settle(ctx context.Context, handle string, used int64) (*Settled, error) {
	question := struct {
		Cost *int64 `json:"cost,omitzero"`
	}{}
	if used != AsHeld {
		question.Cost = &used
	}
	return c.askHold(ctx, call{path: pathHolds + url.PathEscape(handle), question: &question})
}

// Release ends a hold and charges nothing. The errors are those of Settle.
func (c *Client) Release(ctx context.Context, handle string) error {
	_, err := c.askHold(ctx, call{method: http.MethodDelete, path: pathHolds + url.PathEscape(handle)})
	return err
}

// Extend renews a hold for a time from now. It never shortens it. The errors are those of Settle.
func (c *Client) Extend(ctx context.Context, handle string, hold time.Duration) (*Settled, error) {
	question := struct {
		Hold string `json:"hold"`
	}{wireHold(hold)}
	return c.askHold(ctx, call{path: pathHolds + url.PathEscape(handle) + "/extend", question: &question})
}

func (c *Client) askHold(ctx context.Context, q call) (*Settled, error) {
	var s Settled
	if _, err := c.ask(ctx, q, &s); err != nil {
		return nil, err
	}
	c.memory.forgetAll() // what was refused because of the hold may be allowed now
	return &s, nil
}

// wireHold writes for how long to hold, in whole milliseconds.
func wireHold(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
}

// Usage is a hold that renews itself until it is settled or released. It is safe for concurrent use. A
// nil Usage holds nothing, and its methods do nothing.
type Usage struct {
	client *Client
	handle string
	stop   context.CancelFunc
	end    sync.Once
}

// Keep renews what a check holds, each time half of its time has passed, until the Usage is settled or
// released or ctx ends. It returns nil if the check holds nothing.
func (c *Client) Keep(ctx context.Context, held *HeldCost) *Usage {
	if held == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	u := &Usage{client: c, handle: held.Handle, stop: stop}
	length := held.length
	c.background.Go(func() {
		for sleep(ctx, length/2) == nil {
			var problem *Problem
			if _, err := c.Extend(ctx, held.Handle, length); errors.As(err, &problem) {
				return // it has ended
			}
		}
	})
	return u
}

// Settle ends the hold with what was used, AsHeld for what was held, also if ctx has ended. Only the first call of
// Settle or Release does anything; the others return nil. See Client.Settle.
func (u *Usage) Settle(ctx context.Context, used int64) (s *Settled, err error) {
	if u == nil {
		return nil, nil
	}
	u.end.Do(func() {
		u.stop()
		s, err = u.client.Settle(detached(ctx), u.handle, used)
	})
	return s, err
}

// Release ends the hold and charges nothing, also if ctx has ended. See Settle.
func (u *Usage) Release(ctx context.Context) error {
	_, err := u.Settle(ctx, 0)
	return err
}

// Use holds the cost of q, calls f, and settles with what f says was used, whether or not f fails. The
// hold renews itself while f runs, and is released if f panics. Without q.Hold the policy says
// for how long to hold. If the check is refused, Use returns a *Refused and does not call f. Otherwise the
// error is that of f, or else that of settling.
func (c *Client) Use(ctx context.Context, q Check, f func(context.Context) (used int64, err error)) error {
	d, err := c.Check(ctx, q)
	if err != nil {
		return err
	}
	if !d.Allowed {
		return &Refused{Decision: d}
	}
	u := c.Keep(ctx, d.Held)
	defer func() { _ = u.Release(ctx) }() // if f panics; otherwise it is settled already
	used, err := f(ctx)
	_, settling := u.Settle(ctx, used)
	return errors.Join(err, settling)
}
