// Package bouncers computes what programs have to be sent that enforce the blocks
// elsewhere, as firewalls and proxies with a CrowdSec bouncer do: the active blocks as
// addresses and ranges without what is exempt, and what has changed since they last
// asked. It reads no clock and no store.
package bouncers

import (
	"net/netip"
	"strings"
	"time"
)

// ID identifies a bouncer. Two bouncers of one type on one address must not share a
// token: each would miss what the other was sent.
type ID struct {
	TokenID string
	Address netip.Addr
	Type    string // for example "crowdsec-firewall-bouncer", "" where it does not say
}

// Mode says how a bouncer asks.
type Mode string

// The modes.
const (
	Live   Mode = "live"   // about one address at a time
	Stream Mode = "stream" // for all, then for what has changed
)

// Bouncer is a bouncer that has asked.
type Bouncer struct {
	ID
	TokenName string // "" where the token is gone
	Version   string
	Mode      Mode
	First     time.Time
	Last      time.Time // to within a minute in live mode
	Sent      int64     // blocks, new and deleted ones
	Cursor    Cursor
}

// Position is a state of the blocks: that of a revision at an instant.
type Position struct {
	Revision int64
	At       time.Time
}

// Cursor is what a bouncer was sent; the zero value is nothing.
type Cursor struct {
	Last   Position
	Before Position  // the one before it
	Full   time.Time // when it was sent everything
}

// FullInterval is how often a bouncer is sent every active block again. It repairs
// what a bouncer has lost, and prolongs the entries of an ipset, which last 24 days at
// most.
const FullInterval = 24 * time.Hour

// Overlap is how far expiries are looked for before the position that a bouncer has:
// the clocks of nodes differ, and a bouncer that rounds up drops a block late.
const Overlap = 2 * time.Second

// Gone is after how long a bouncer that does not ask is forgotten.
const Gone = 30 * 24 * time.Hour

// MaxPerToken is the number of bouncers that are remembered for a token; the one that
// has not asked for longest is forgotten first.
const MaxPerToken = 100

// maxAgent bounds each part of a User-Agent that is kept, in bytes.
const maxAgent = 64

// ParseAgent returns the type and the version that a User-Agent names.
func ParseAgent(agent string) (kind, version string) {
	agent, _, _ = strings.Cut(agent, " ")
	kind, version, _ = strings.Cut(agent, "/")
	return plain(kind), plain(version)
}

// plain returns what a text has of printable ASCII, clipped.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), maxAgent)]
}

// warnings are what operators have to know of a type of bouncer, by a part of its
// name.
var warnings = []struct{ part, text string }{
	{"firewall-bouncer", "In nftables mode it blocks only the first address of a range, every IPv6 /64 included; use its iptables mode."},
	{"nodejs", "It blocks only the first address of an IPv6 range and, in stream mode, only one range of an IPv4 /24."},
}

// Warning returns what an operator has to know of the bouncer's type, "" for nothing.
func (b *Bouncer) Warning() string {
	kind := strings.ToLower(b.Type)
	for _, w := range warnings {
		if strings.Contains(kind, w.part) {
			return w.text
		}
	}
	return ""
}
