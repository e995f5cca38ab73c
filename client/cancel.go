package client

import (
	"context"
	"net/http"
	"net/url"
)

// Cancel gives a reserved reservation back by its handle and reports whether that
// freed room for others; one whose time has come, or that was cancelled
// before, makes none. The error is a *Problem with status 404 for a handle that is unknown,
// an *OutageError whatever WithOutage says, or the context's.
func (c *Client) Cancel(ctx context.Context, handle string) (bool, error) {
	var given wireCancelled
	_, err := c.ask(ctx, call{method: http.MethodDelete, path: pathReservations + url.PathEscape(handle)}, &given)
	if err == nil && given.Freed {
		c.memory.forgetAll() // what was refused because of this reservation may be allowed now
	}
	return given.Freed, err
}

// leave cancels a reservation that nobody waits for any more. What comes of it
// interests nobody: a reservation that is not cancelled lapses.
func (c *Client) leave(ctx context.Context, reservation *Reservation) {
	if reservation != nil {
		c.background.Go(func() { _, _ = c.Cancel(detached(ctx), reservation.Handle) })
	}
}
