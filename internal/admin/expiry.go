package admin

import (
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// ExpiryOf returns the expiry that a request sets.
func ExpiryOf(in wire.Duration, at wire.Time) blocks.Expiry {
	return blocks.Expiry{For: in.Std(), Until: at.Time}
}

// ExpiryChange returns the expiry that a change sets, nil for no change.
func ExpiryChange(in wire.Change[wire.Duration], at wire.Change[wire.Time]) (*blocks.Expiry, error) {
	switch {
	case !in.Given && !at.Given:
		return nil, nil
	case in.Given && at.Given:
		return nil, fault.Field("expires_in", "cannot be combined with expires_at")
	case in.Given && in.Value == 0:
		return nil, fault.Field("expires_in", "must be above zero; send \"expires_at\": null for permanent")
	}
	expiry := ExpiryOf(in.Value, at.Value)
	return &expiry, nil
}
