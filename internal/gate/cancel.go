package gate

import (
	"context"

	"github.com/stint-dev/stint/internal/fault"
)

// Cancel cancels the reservations of a handle, or what a Cancellable check was charged, in every log that
// has one, and reports whether that freed room. The error is a *fault.Error: fault.NotFound if handle is not a handle of this
// installation, and fault.Unavailable if the log is unreachable. Cancel may be retried then.
func (g *Gate) Cancel(ctx context.Context, handle string) (bool, error) {
	if !g.view.Loaded() {
		return false, fault.New(fault.Unavailable, "This node has not loaded its settings yet; try again in a moment.")
	}
	reservations, known := presentSigner(g).read(handle)
	if !known {
		return false, fault.New(fault.NotFound, "This is not the handle of a reservation or a charge of this installation; send it exactly as it was received.")
	}
	limited, cancel := context.WithTimeout(ctx, 10*g.deadline)
	defer cancel()
	freed := false
	for _, r := range reservations {
		hasFreed, err := g.log.Cancel(limited, r.Reservation)
		if err != nil {
			return false, &fault.Error{Code: fault.Unavailable, Message: unreachable + " It may not be cancelled yet; repeat this.", Err: err}
		}
		freed = freed || hasFreed && !r.sharesKey
	}
	return freed, nil
}
