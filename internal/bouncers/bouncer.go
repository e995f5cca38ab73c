// Package bouncers computes what to send to programs that enforce the blocks elsewhere, such as
// firewalls and proxies with a CrowdSec bouncer: the active blocks as addresses and ranges
// without what is exempt, and the changes since the last request. It reads neither the clock
// nor a store.
package bouncers

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ID identifies a bouncer. Two bouncers of the same type with the same address must not share a
// token: each would miss what was sent to the other.
type ID struct {
	TokenID string
	Address netip.Addr
	Type    string // for example "crowdsec-firewall-bouncer", "" if unknown
}

// Mode is the way in which a bouncer sends requests.
type Mode string

// The modes.
const (
	Live   Mode = "live"   // requests about one address each
	Stream Mode = "stream" // a request for everything, then for changes
)

// Bouncer is a bouncer that has sent a request.
type Bouncer struct {
	ID
	TokenName string // "" if the token was deleted
	Version   string
	Mode      Mode
	First     time.Time
	Last      time.Time // accurate to a minute in live mode
	Sent      int64     // number of blocks sent, new and deleted ones
	Cursor    Cursor
	// MayCaptcha says that its token lets it have blocks that challenge.
	MayCaptcha bool
}

// Position is a state of the blocks: a revision and an instant.
type Position struct {
	Revision int64
	At       time.Time
}

// Cursor is what a bouncer was sent; the zero value means nothing.
type Cursor struct {
	Last   Position
	Before Position  // the previous position
	Full   time.Time // when everything was last sent
}

// FullInterval is how often a bouncer is sent every active block again. This restores blocks
// that a bouncer has lost, and prolongs the entries of an ipset, which last at most 24 days.
const FullInterval = 24 * time.Hour

// Overlap is how long before the bouncer's position expiries are searched: the clocks of nodes
// differ, and a bouncer that rounds up drops a block late.
const Overlap = 2 * time.Second

// Gone is the time without a request after which a bouncer is deleted.
const Gone = 30 * 24 * time.Hour

// MaxPerToken bounds the bouncers of a token; the one whose last request is oldest is deleted
// first.
const MaxPerToken = 100

// maxAgent bounds each stored part of a User-Agent, in bytes.
const maxAgent = 64

// ParseAgent returns the type and the version in a User-Agent.
func ParseAgent(agent string) (kind, version string) {
	agent, _, _ = strings.Cut(agent, " ")
	kind, version, _ = strings.Cut(agent, "/")
	return plain(kind), plain(version)
}

// plain returns the printable ASCII of a text, clipped.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), maxAgent)]
}

// warnings are what operators must know about types of bouncers, by a part of the type's name.
var warnings = []struct{ part, text string }{
	{"firewall-bouncer", "In nftables mode it blocks only the first address of a range, every IPv6 /64 included; use its iptables mode."},
	{"nodejs", "It blocks only the first address of an IPv6 range and, in stream mode, only one range of an IPv4 /24."},
}

// captchaTypes are the types of bouncers that can show captchas, in lower case. Some of them ban instead
// where none is configured, so that the token must say that it is.
var captchaTypes = []string{
	"crowdsec-nginx-bouncer", "crowdsec-openresty-bouncer", "crowdsec-haproxy-bouncer", "crowdsec-cloudflare-worker-bouncer",
	"crowdsec-bouncer-traefik-plugin",
}

// ShowsCaptchas reports whether a type of bouncers can show captchas.
func ShowsCaptchas(kind string) bool { return slices.Contains(captchaTypes, strings.ToLower(kind)) }

// GetsCaptchas reports whether the bouncer is sent blocks that challenge without asking for them by type.
func (b *Bouncer) GetsCaptchas() bool { return b.MayCaptcha && ShowsCaptchas(b.Type) }

// Warning returns what an operator must know about the bouncer's type, "" for nothing.
func (b *Bouncer) Warning() string {
	if b.MayCaptcha && !ShowsCaptchas(b.Type) {
		return "Its token has the scope captcha, but this type is not known to show captchas: it is sent no block that challenges."
	}
	kind := strings.ToLower(b.Type)
	for _, w := range warnings {
		if strings.Contains(kind, w.part) {
			return w.text
		}
	}
	return ""
}
