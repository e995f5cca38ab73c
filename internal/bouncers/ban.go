package bouncers

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// Origin is the origin of every ban. Bouncers use it in names of sets and cache entries, so it
// must never change.
const Origin = "stint"

// The scopes of addresses. The scope of any other key is its kind.
const (
	ScopeIP    = "Ip"
	ScopeRange = "Range"
)

// Type is what a bouncer does to clients.
type Type string

// The types. Bouncers and CrowdSec know them by these names.
const (
	TypeBan     Type = "ban"
	TypeCaptcha Type = "captcha" // of a block that challenges
)

// Ban is a block in the form for bouncers. If exemptions are cut out of a block, it becomes
// several bans.
type Ban struct {
	Type    Type
	Scope   string
	Value   string
	Reason  string
	Expires time.Time // zero: permanent
	entry   string    // the id of the block
	isPart  bool      // only a part of the block's network
}

// permanentFor is the announced duration of a permanent ban, and of one that lasts longer. The ban
// is sent again long before its end.
const permanentFor = 10 * 365 * 24 * time.Hour

// Duration returns how long the ban lasts from an instant, in whole seconds rounded
// up, at least one.
func (b Ban) Duration(now time.Time) time.Duration {
	if b.Expires.IsZero() {
		return permanentFor
	}
	left := b.Expires.Sub(now)
	if left > permanentFor {
		return permanentFor // rounding up what is left of some 292 years would overflow
	}
	return max((left + time.Second - 1).Truncate(time.Second), time.Second)
}

// Number returns an id of the ban that is stable while its block exists. It has 53 bits, since
// some bouncers parse numbers as floating point.
func (b Ban) Number() int64 {
	sum := sha256.Sum256([]byte(b.entry + " " + b.Value))
	return int64(binary.BigEndian.Uint64(sum[:8])>>11) | 1
}

// UUID returns the id of the block or, if the ban is a part of the block, an id derived from
// it.
func (b Ban) UUID() string {
	id, err := uuid.Parse(b.entry)
	if err != nil || !b.isPart {
		return b.entry
	}
	return uuid.NewSHA1(id, []byte(b.Value)).String()
}

// outlasts reports whether b ends later than other.
func (b Ban) outlasts(other Ban) bool {
	return blocks.IsLater(b.Expires, other.Expires)
}

// isWeakerThan reports whether b refuses less than other, which it replaces: a captcha in place of a ban, or
// the same that ends earlier.
func (b Ban) isWeakerThan(other Ban) bool {
	if b.Type != other.Type {
		return b.Type == TypeCaptcha
	}
	return other.outlasts(b)
}

// Filter selects bans. The zero value selects all addresses and ranges of type TypeBan.
type Filter struct {
	// Captchas says that the bouncer shows captchas: others would ban for them, or let pass.
	Captchas                 bool
	Type                     Type     // in lower case; "" means any that the bouncer may have
	Scopes                   []string // in any case; none means ip and range
	Origins                  []string // none means any
	Containing, NotContained []string // parts of the reason, in any case
}

// none reports whether the filter selects nothing for any blocks.
func (f *Filter) none() bool {
	return len(f.Origins) > 0 && !slices.Contains(f.Origins, Origin) || f.Type != "" && f.Type != TypeBan && f.Type != TypeCaptcha
}

func (f *Filter) hasType(t Type) bool {
	return (t == TypeBan || f.Captchas) && (f.Type == "" || f.Type == t)
}

func (f *Filter) hasScope(scope string) bool {
	if len(f.Scopes) == 0 {
		return scope == ScopeIP || scope == ScopeRange
	}
	return slices.ContainsFunc(f.Scopes, func(s string) bool { return strings.EqualFold(s, scope) })
}

// hasKeys reports whether the filter may select keys that are not addresses.
func (f *Filter) hasKeys() bool {
	return slices.ContainsFunc(f.Scopes, func(s string) bool { return !strings.EqualFold(s, ScopeIP) && !strings.EqualFold(s, ScopeRange) })
}

// Selects reports whether the filter selects a ban.
func (f *Filter) Selects(b Ban) bool {
	if f.none() || !f.hasType(b.Type) || !f.hasScope(b.Scope) {
		return false
	}
	reason := strings.ToLower(b.Reason)
	in := func(part string) bool { return strings.Contains(reason, strings.ToLower(part)) }
	return (len(f.Containing) == 0 || slices.ContainsFunc(f.Containing, in)) && !slices.ContainsFunc(f.NotContained, in)
}

// target is the target of a ban: a network, or the literal of another key.
type target struct {
	network netip.Prefix
	key     string
}

// targetOf returns the target of blocks with a pattern. Bouncers cannot enforce a prefix or "*",
// which have none.
func targetOf(p keys.Pattern) (target, bool) {
	if network, is := p.Network(); is {
		return target{network: network}, true
	}
	return target{key: p.Literal()}, isKey(p)
}

// banOf returns the ban of a target by a block.
func banOf(t target, e *blocks.Entry) Ban {
	b := Ban{Type: TypeBan, Scope: ScopeRange, Value: t.network.String(), Reason: e.Reason, Expires: e.Expires, entry: e.ID}
	if e.Action == blocks.Challenge {
		b.Type = TypeCaptcha
	}
	switch {
	case t.key != "":
		b.Scope, b.Value, _ = strings.Cut(t.key, ":")
	case t.network.IsSingleIP():
		b.Scope, b.Value = ScopeIP, t.network.Addr().String()
	}
	network, is := e.Pattern.Network()
	b.isPart = is && network != t.network
	return b
}
