package blocklist

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// ConfirmShare is the share of the last day's traffic above which a block of
// more than one client needs a confirmation.
const ConfirmShare = 0.01

// Radius is whom a block of a pattern would hit: its blast radius.
type Radius struct {
	Pattern keys.Pattern
	// Traffic is the pattern's part of the last day's traffic, nil where
	// nothing is recorded.
	Traffic *Traffic
	// Hidden says that an exemption hides all of it; Exemptions are those that
	// hide it or a part.
	Hidden     bool
	Exemptions []*blocks.Exemption
	// Covering are the blocks that refuse all of it already, Covered those
	// that it makes superfluous.
	Covering, Covered []*blocks.Block
	// HitsCaller says that it refuses whoever asks.
	HitsCaller bool
	// Confirm says why it needs a confirmation, "" where it needs none.
	Confirm string
}

// Surveyor finds the blast radius of patterns.
type Surveyor struct {
	View    View
	Parser  func() keys.Parser
	Traffic TrafficEstimator // nil: nothing is recorded
	Now     func() time.Time
}

// MaxNeighbours is how many exemptions, and how many blocks, a radius names at
// most; there may be more.
const MaxNeighbours = 20

// Survey returns the blast radius of a block of p that caller asks for.
func (s *Surveyor) Survey(ctx context.Context, p keys.Pattern, caller netip.Addr) (*Radius, error) {
	now := s.Now()
	set := s.View.Blocks()
	r := &Radius{Pattern: p, Exemptions: set.ExemptionsTouching(p, now, MaxNeighbours)}
	for _, e := range r.Exemptions {
		r.Hidden = r.Hidden || e.Pattern.Covers(p)
	}
	for _, b := range set.BlocksTouching(p, now, MaxNeighbours) {
		if b.Pattern.Covers(p) {
			r.Covering = append(r.Covering, b)
		} else {
			r.Covered = append(r.Covered, b)
		}
	}
	r.HitsCaller = s.HitsCaller(p, caller)
	var err error
	if s.Traffic != nil {
		r.Traffic, err = s.Traffic.EstimateTraffic(ctx, now.Add(-day), now, p.Matches)
	}
	r.Confirm = s.confirm(r)
	return r, err
}

// HitsCaller reports whether a block of p refuses whoever asks for it, an
// invalid caller for nobody.
func (s *Surveyor) HitsCaller(p keys.Pattern, caller netip.Addr) bool {
	if !caller.IsValid() {
		return false
	}
	k := s.Parser().AddressKey(caller)
	return p.Matches(k) && s.View.Blocks().Match(k, s.Now()).Exemption == nil
}

// confirm says why a block needs a confirmation, "" where it needs none. What
// selects a single client never does.
func (s *Surveyor) confirm(r *Radius) string {
	if Single(r.Pattern) {
		return ""
	}
	if wide := Wide(r.Pattern); wide != "" {
		return wide
	}
	if t := r.Traffic; t != nil && t.Share > ConfirmShare {
		return fmt.Sprintf("it would have refused about %.1f %% of the last day's checks", t.Share*100)
	}
	return ""
}

// Single reports whether a pattern selects one client: one key, one IPv4
// address, or at most a /64 of IPv6.
func Single(p keys.Pattern) bool {
	network, is := p.Network()
	if !is {
		return p.Kind() == keys.Exact
	}
	return network.Addr().Is4() && network.Bits() == 32 || network.Addr().Is6() && network.Bits() >= 64
}

// Wide says why a pattern is so wide that whoever blocks or exempts it should
// mean it, "" where it is not.
func Wide(p keys.Pattern) string {
	switch p.Kind() {
	case keys.Any:
		return "it selects every key"
	case keys.Prefix:
		if kind, rest, _ := strings.Cut(p.Literal(), ":"); rest == "" {
			return fmt.Sprintf("it selects every key of the kind %q", kind)
		}
	case keys.Network:
		network, _ := p.Network()
		if network.Addr().Is4() && network.Bits() < 16 {
			return "it is wider than a /16"
		}
		if network.Addr().Is6() && network.Bits() < 32 {
			return "it is wider than a /32"
		}
	}
	return ""
}

// NeedConfirm is the error of a pattern that must be confirmed by sending it
// once more, since why; nil where why is "".
func NeedConfirm(p keys.Pattern, why string) error {
	if why == "" {
		return nil
	}
	e := fault.New(fault.NeedConfirm, "The pattern %q is wide: %s. Where that is meant, send it again with \"confirm\" set to the pattern.", p, why)
	e.Field = "confirm"
	e.Detail = map[string]any{"confirm": p.String(), "why": why}
	return e
}
