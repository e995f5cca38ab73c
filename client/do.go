package client

import "context"

// Do waits for a reservation as Wait does and then calls f, whose error it returns. It
// does not call f if Wait fails, for example with a *Refused because the reservation would
// be too late.
func (c *Client) Do(ctx context.Context, q Check, f func(context.Context) error) error {
	if _, err := c.Wait(ctx, q); err != nil {
		return err
	}
	return f(ctx)
}
