package gate

import "github.com/stint-dev/stint/internal/keys"

// address returns the key of the address that a check is about, zero if it is not known.
func (c *Check) address() keys.Key {
	if _, isAddress := c.Key.Network(); isAddress {
		return c.Key
	}
	if !c.Client.IsZero() {
		return c.Client
	}
	return c.Address
}
