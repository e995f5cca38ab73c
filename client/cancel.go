package client

import (
	"context"
	"net/http"
	"net/url"
)

// Cancel cancels a reservation, or what a Cancellable check was charged, by its handle and reports whether
// that freed room for other requests. It does not if the reserved time has passed, the charge no longer
// counts, or it was cancelled before, also by an attempt of the same call whose answer was lost. The error is a *Problem with status 404 if the handle is unknown, an
// *OutageError regardless of WithOutage, or the error of ctx.
func (c *Client) Cancel(ctx context.Context, handle string) (bool, error) {
	var given wireCancelled
	_, err := c.ask(ctx, call{method: http.MethodDelete, path: pathReservations + url.PathEscape(handle)}, &given)
	// What was refused because of this reservation may be allowed now. That is so too if it was
	// freed by an attempt whose answer was lost.
	c.memory.forgetAll()
	return given.Freed, err
}

// leave cancels a reservation that is no longer needed. It ignores errors: a reservation
// that is not cancelled passes unused.
func (c *Client) leave(ctx context.Context, reservation *Reservation) {
	if reservation != nil {
		c.background.Go(func() { _, _ = c.Cancel(detached(ctx), reservation.Handle) })
	}
}
