package admin

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// Limits above which a change is broad and needs a confirmation. They apply to everything from
// one manual block to a file of a million rows.
const (
	// confirmRatio is the ratio of the last day's allowed checks above which a block of
	// more than one client needs a confirmation.
	confirmRatio = 0.01
	// A network with fewer bits is broad.
	broadBits4, broadBits6 = 16, 32
	// The networks of one change that are not broad by themselves are broad together if they
	// contain more addresses than one network of this many bits.
	broadSum4, broadSum6 = 8, 24
)

// isSingle reports whether a pattern selects one client: one key, one IPv4
// address, or at most a /64 of IPv6.
func isSingle(p keys.Pattern) bool {
	network, is := p.Network()
	if !is {
		return p.Kind() == keys.Exact && !isOfBots(p)
	}
	return network.Addr().Is4() && network.Bits() == 32 || network.Addr().Is6() && network.Bits() >= 64
}

// isOfBots reports whether a pattern selects requests by the bot that they say to be of, and so any
// number of clients.
func isOfBots(p keys.Pattern) bool { return bots.IsPattern(p.String()) }

// BroadReason says why blocking or exempting a pattern needs a confirmation, because it selects
// so many keys; "" if it needs none.
func BroadReason(p keys.Pattern) string {
	if isOfBots(p) {
		return "it covers all requests that are identified as " + p.String() + ", whatever number of addresses they come from"
	}
	switch p.Kind() {
	case keys.Any:
		return "it covers every key"
	case keys.Prefix:
		if kind, rest, _ := strings.Cut(p.Literal(), ":"); rest == "" {
			return fmt.Sprintf("it covers every key of the kind %q", kind)
		}
	case keys.FromOrigin:
		return broadOrigin(p)
	case keys.Network:
		network, _ := p.Network()
		switch {
		case network.Bits() == 0 && network.Addr().Is4():
			return "it covers every IPv4 address"
		case network.Bits() == 0:
			return "it covers every IPv6 address"
		case network.Addr().Is4() && network.Bits() < broadBits4:
			return fmt.Sprintf("it is wider than a /%d", broadBits4)
		case network.Addr().Is6() && network.Bits() < broadBits6:
			return fmt.Sprintf("it is wider than a /%d", broadBits6)
		}
	}
	return ""
}

// broadOrigin says why the pattern of an origin is broad. The pattern of a country always is,
// and so is that of an autonomous system of unknown size.
func broadOrigin(p keys.Pattern) string {
	origin, _ := p.Origin()
	if origin.ASN == 0 {
		return "it covers every address of the country " + origin.Country.String()
	}
	extent, known := keys.ExtentOf(p)
	switch {
	case !known:
		return "its size is not known, since this node has no file of autonomous systems"
	case extent.Addresses > 1<<(32-broadBits4):
		return fmt.Sprintf("it covers %d IPv4 addresses, more than a /%d", extent.Addresses, broadBits4)
	case extent.Networks6 > 1:
		return fmt.Sprintf("it covers more of IPv6 than a /%d", broadBits6)
	}
	return ""
}

// trafficReason says how much of the last day's allowed checks would have been refused, "" if that
// needs no confirmation or is unknown.
func trafficReason(t *TrafficEstimate) string {
	if t == nil || t.Ratio <= confirmRatio {
		return ""
	}
	return fmt.Sprintf("would have refused about %.1f%% of the last day's checks that were allowed", t.Ratio*100)
}

// needConfirm returns the error for patterns that must be confirmed by repeating them, nil if
// reason is "".
func needConfirm(patterns, reason string) error {
	if reason == "" {
		return nil
	}
	e := fault.New(fault.NeedConfirm, "Nothing was changed: %s. To go on, confirm it by repeating the pattern %s.", reason, patterns)
	e.Field = "confirm"
	e.Detail = map[string]any{"confirm": patterns, "confirm_reason": reason}
	return e
}
