package client

import (
	"context"
	"net/http"
	"net/url"
)

// GiveBack gives a reserved turn back by its handle and reports whether that
// made room for others; one whose time has come, or that was given back
// before, makes none. The error is a *Problem with status 404 for a handle that is unknown,
// an *OutageError whatever WithOutage says, or the context's.
func (c *Client) GiveBack(ctx context.Context, handle string) (bool, error) {
	var given wireGivenBack
	_, err := c.ask(ctx, call{method: http.MethodDelete, path: pathTurns + url.PathEscape(handle)}, &given)
	if err == nil && given.MadeRoom {
		c.memory.forgetAll() // whoever was refused for this turn may be allowed now
	}
	return given.MadeRoom, err
}

// leave gives a turn back that nobody waits for any more. What comes of it
// interests nobody: a turn that is not given back lapses.
func (c *Client) leave(ctx context.Context, turn *Turn) {
	if turn != nil {
		c.background.Go(func() { _, _ = c.GiveBack(detached(ctx), turn.Handle) })
	}
}
