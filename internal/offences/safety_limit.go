package offences

import (
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// The safety limit bounds automatic blocks, since an escalation that blocks much of the traffic
// is probably caused by a mistake in a rule. Within SafetyLimitWindow, one escalation may block a
// certain ratio of the keys that its policy saw, and always at least MinSafetyLimit, so that
// small installations work. An escalation that would block more is paused until a person resumes
// it. Keys are counted by SafetyUnit.
const (
	// DefaultSafetyLimit is the default ratio.
	DefaultSafetyLimit = 0.2
	// MinSafetyLimit is how many keys every installation may block within an hour. A small site
	// has about ten offenders from different networks in a day, and a mistake that blocks that
	// many can be undone by hand.
	MinSafetyLimit = 10
	// SafetyLimitWindow is the time over which the safety limit counts.
	SafetyLimitWindow = time.Hour
)

// SafetyLimit is how much a policy may block automatically, and how much it has blocked.
type SafetyLimit struct {
	Paused  bool  // the escalation is paused already; only a person resumes it
	Blocked int64 // within SafetyLimitWindow, but only since it was last resumed
	New     int64 // candidates that reach the threshold and are not in Blocked
	Allowed int64 // within SafetyLimitWindow
	Seen    int64 // within SafetyLimitWindow, estimated
}

// AllowedBlocks returns how many keys may be blocked within an hour in which about seen keys were
// seen. ratio is the part of them that may be blocked; 1 or more is no limit. seen is reduced by
// three standard errors of the estimate.
func AllowedBlocks(ratio float64, seen int64) int64 {
	if ratio >= 1 {
		return math.MaxInt64
	}
	return max(MinSafetyLimit, int64(ratio*float64(seen)*(1-3*DistinctError)))
}

// SafetyUnit returns the unit as which the safety limit counts a key. For the address of a client
// it is the IPv4 /24 or IPv6 /48, which one attacker may own as a whole. So an attacker cannot
// pause an escalation by using many addresses. This includes addresses in keys of other kinds,
// such as login:203.0.113.7. Every other key is a unit of its own, and so is each address of a
// private network: these belong to the operator, whose clients may all be in one /24.
func SafetyUnit(k keys.Key) string {
	network, is := SafetyNetwork(k)
	if !is {
		return k.String()
	}
	return keys.NetworkPattern(network).String()
}

// SafetyNetwork returns the network of SafetyUnit, false for a key that is a unit of its own. It
// does not allocate, because the recorder calls it for checks.
func SafetyNetwork(k keys.Key) (netip.Prefix, bool) {
	network, is := k.Network()
	if !is {
		network, is = addressIn(k.String())
	}
	if !is || keys.IsInternal(network.Addr()) {
		return netip.Prefix{}, false
	}
	return neighbourhood(network)
}

// addressIn returns the address in a key of another kind than ip, false for none. Applications
// use such keys to count a part of the requests of an address. A slash in the key precedes the
// length of its network.
func addressIn(key string) (netip.Prefix, bool) {
	kind, value, _ := strings.Cut(key, ":")
	text, _, isNetwork := strings.Cut(value, "/")
	if isNetwork && kind == rules.Network {
		return netip.Prefix{}, false
	}
	// Do not parse other text, because the error would allocate.
	if !strings.ContainsAny(text, ".:") || strings.Trim(text, "0123456789abcdefABCDEF.:") != "" {
		return netip.Prefix{}, false
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	address = address.Unmap()
	return netip.PrefixFrom(address, address.BitLen()), true
}
