package offences

import (
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// The safety limit bounds automatic blocks, since an escalation that blocks much of the
// traffic probably follows from a mistake in a rule: within SafetyLimitWindow, one
// escalation may block a part of the keys that its policy saw, and always at least
// MinSafetyLimit, so that small installations work. One that would block more stops until
// a person resumes it. Keys count as SafetyUnit says.
const (
	// DefaultSafetyLimit is the part where no setting says otherwise.
	DefaultSafetyLimit = 0.2
	// MinSafetyLimit is what any site may block within an hour: a small site has some ten
	// offenders of different networks in a day, and a mistake that blocks as many can be
	// undone by hand.
	MinSafetyLimit = 10
	// SafetyLimitWindow is the time over which the safety limit counts.
	SafetyLimitWindow = time.Hour
)

// SafetyLimit is how much a policy may block automatically, and what it has blocked.
type SafetyLimit struct {
	Paused  bool  // already: only a person resumes it
	Blocked int64 // within SafetyLimitWindow and since it was resumed
	New     int64 // of the candidates that reach the threshold, those not among Blocked
	Allowed int64 // within SafetyLimitWindow
	Seen    int64 // within SafetyLimitWindow, estimated
}

// AllowedBlocks returns how many may be blocked within an hour in which about seen were
// seen, if ratio of them may; 1 or more is no limit. The estimate is taken low by three
// standard errors.
func AllowedBlocks(ratio float64, seen int64) int64 {
	if ratio >= 1 {
		return math.MaxInt64
	}
	return max(MinSafetyLimit, int64(ratio*float64(seen)*(1-3*DistinctError)))
}

// SafetyUnit returns what the safety limit counts a key as: the address of a client as its
// IPv4 /24 or IPv6 /48, which one attacker may have as a whole, so that it pauses no
// escalation by using many of its addresses, also in keys of other kinds, as
// login:203.0.113.7; every other key as itself. The addresses of private networks count
// each: they are the operator's own, and all of its clients may be in one /24.
func SafetyUnit(k keys.Key) string {
	network, is := SafetyNetwork(k)
	if !is {
		return k.String()
	}
	return keys.NetworkPattern(network).String()
}

// SafetyNetwork returns the network that SafetyUnit names, false for a key that counts as
// itself. It does not allocate: the recorder calls it for checks.
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

// addressIn returns the address in a key of another kind than ip, false for none: applications
// count a part of the requests of an address under such keys. What follows a slash is the
// length of its network.
func addressIn(key string) (netip.Prefix, bool) {
	kind, value, _ := strings.Cut(key, ":")
	text, _, isNetwork := strings.Cut(value, "/")
	if isNetwork && kind == rules.Network {
		return netip.Prefix{}, false
	}
	// What is no address is not parsed, as its error allocates.
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
