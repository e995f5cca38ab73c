package format

import (
	"fmt"
	"math/big"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/phrase"
)

// PatternSize describes how many keys a pattern selects.
func PatternSize(p keys.Pattern) string {
	network, ok := p.Network()
	switch {
	case bots.IsPattern(p.String()):
		return "all requests that are identified as it"
	case p.Kind() == keys.Any:
		return "every key"
	case p.String() == "ip:*":
		return "every address"
	case p.Kind() == keys.FromOrigin:
		if extent, known := keys.ExtentOf(p); known {
			return phrase.Number(int64(extent.Addresses)) + " IPv4 addresses in " + ranges(extent.Ranges)
		}
		return "all its addresses"
	case p.Kind() == keys.Prefix:
		return "every key with this beginning"
	case !ok:
		return "1 key"
	case network.IsSingleIP():
		return "1 address"
	case network.Addr().Is4():
		return phrase.Number(int64(1)<<(32-network.Bits())) + " addresses"
	case network.Bits() <= 64:
		n := new(big.Int).Lsh(big.NewInt(1), uint(64-network.Bits()))
		if n.IsInt64() && n.Int64() < 1e15 {
			return networks(n.Int64())
		}
		return fmt.Sprintf("2 to the power of %d networks of /64", 64-network.Bits())
	}
	return "a part of one /64"
}

func ranges(n int) string {
	if n == 1 {
		return "1 range"
	}
	return phrase.Number(int64(n)) + " ranges"
}

func networks(n int64) string {
	if n == 1 {
		return "1 network of /64"
	}
	return phrase.Number(n) + " networks of /64"
}
