package admin

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// ExpiryOf returns the expiry that a request sets.
func ExpiryOf(in wire.Duration, at wire.Time) blocks.Expiry {
	return blocks.Expiry{For: in.Std(), Until: at.Time}
}

// ExpiryChange returns the instant to which a change sets an expiry, the zero Time for permanent.
func ExpiryChange(in wire.Change[wire.Duration], at wire.Change[wire.Time], now time.Time) (wire.Change[wire.Time], error) {
	switch {
	case !in.Given && !at.Given:
		return at, nil
	case in.Given && at.Given:
		return at, fault.Field("expires_in", "cannot be combined with expires_at")
	case in.Given && in.Value == 0:
		return at, fault.Field("expires_in", "must be above zero; send \"expires_at\": null for permanent")
	}
	expires, err := ExpiryOf(in.Value, at.Value).At(now)
	return wire.To(wire.At(expires)), err
}
