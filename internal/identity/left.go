package identity

import (
	"context"
	"net/netip"
)

// LoginsLeft returns how many more attempts to log in as account from an
// address are let through before its sender has to wait. It counts nothing.
func (g *Guesses) LoginsLeft(ctx context.Context, from netip.Addr, account string) int {
	address := g.address(from)
	return min(
		g.left(ctx, logAddresses, address, addressStack),
		g.left(ctx, logPairs, address+" "+account, pairStack),
	)
}
