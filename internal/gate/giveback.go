package gate

import (
	"context"

	"github.com/stint-dev/stint/internal/fault"
)

// GiveBack gives back the turn that a handle names, in every log that it was
// reserved in, and reports whether that made room for others. The error is a
// *fault.Error: fault.NotFound for what is no handle of this Stint,
// fault.Unavailable where the log is out of reach; it may then be repeated.
func (g *Gate) GiveBack(ctx context.Context, handle string) (bool, error) {
	if !g.view.Loaded() {
		return false, fault.New(fault.Unavailable, "This node has not loaded its settings yet; try again in a moment.")
	}
	turns, known := g.ids.under(g.view.Settings().Secret).read(handle)
	if !known {
		return false, fault.New(fault.NotFound, "This is not the handle of a turn that was reserved here; it must come back exactly as it was given.")
	}
	limited, cancel := context.WithTimeout(ctx, 10*g.deadline)
	defer cancel()
	madeRoom := false
	for _, t := range turns {
		made, err := g.log.GiveBack(limited, t.Turn)
		if err != nil {
			return false, &fault.Error{Code: fault.Unavailable, Message: outOfReach + " The turn may still be held; repeat this.", Err: err}
		}
		madeRoom = madeRoom || made && !t.shadow
	}
	return madeRoom, nil
}
