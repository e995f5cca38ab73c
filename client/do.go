package client

import "context"

// Do waits for a reservation as Wait does and then calls f, whose error it returns. It
// calls f at most once, and not at all where it returns a *Refused since the
// reservation would come too late, or an error of Wait.
func (c *Client) Do(ctx context.Context, q Check, f func(context.Context) error) error {
	if _, err := c.Wait(ctx, q); err != nil {
		return err
	}
	return f(ctx)
}
