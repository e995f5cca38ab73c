package gate

import (
	"strconv"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// describe returns the request of a check with what the node finds by itself and policies look at.
func (g *Gate) describe(c *Check, selector *rules.Selector) *conditions.Request {
	if !selector.AsksOrigin() {
		return c.Request
	}
	return c.Request.With(found(c.address()))
}

// address returns the key of the address that a check is about, zero if it is not known.
func (c *Check) address() keys.Key {
	if _, isAddress := c.Key.Network(); isAddress {
		return c.Key
	}
	return c.Client
}

func found(address keys.Key) (f conditions.Found) {
	origin := keys.OriginOf(address)
	if f.Country = origin.Country.String(); origin.ASN != 0 {
		f.ASN = strconv.FormatUint(uint64(origin.ASN), 10)
	}
	return f
}
