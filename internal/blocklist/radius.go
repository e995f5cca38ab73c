package blocklist

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// Radius is whom a block of a pattern would hit: its blast radius.
type Radius struct {
	Pattern keys.Pattern
	// Traffic is the pattern's part of the last day's traffic, nil where
	// nothing is recorded.
	Traffic *Traffic
	// Hidden says that an exemption hides all of it; Exemptions are those that
	// hide it or a part.
	Hidden     bool
	Exemptions []*blocks.Entry
	// CoveredBy are the blocks that refuse all of it already, Covers those
	// that it makes superfluous.
	CoveredBy, Covers []*blocks.Entry
	// BlocksCaller says that it refuses whoever asks.
	BlocksCaller bool
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
	r := &Radius{Pattern: p, Exemptions: set.Overlapping(blocks.Exemption, p, now, MaxNeighbours)}
	for _, e := range r.Exemptions {
		r.Hidden = r.Hidden || e.Pattern.Covers(p)
	}
	for _, b := range set.Overlapping(blocks.Block, p, now, MaxNeighbours) {
		if b.Pattern.Covers(p) {
			r.CoveredBy = append(r.CoveredBy, b)
		} else {
			r.Covers = append(r.Covers, b)
		}
	}
	r.BlocksCaller = s.BlocksCaller(p, caller)
	var err error
	if s.Traffic != nil {
		r.Traffic, err = s.Traffic.EstimateTraffic(ctx, now.Add(-day), now, p.Matches)
	}
	r.Confirm = s.confirm(r)
	return r, err
}

// WhyConfirm says why a block of p needs a confirmation, "" where it needs none.
func (s *Surveyor) WhyConfirm(ctx context.Context, p keys.Pattern) string {
	r := &Radius{Pattern: p}
	if s.Traffic != nil && !Single(p) && Broad(p) == "" {
		now := s.Now()
		t, err := s.Traffic.EstimateTraffic(ctx, now.Add(-day), now, p.Matches)
		// Not knowing its share of the traffic must keep nobody from blocking an
		// attacker while the database is in trouble.
		if err == nil {
			r.Traffic = t
		}
	}
	return s.confirm(r)
}

// BlocksCaller reports whether a block of p refuses whoever asks for it, an
// invalid caller for nobody.
func (s *Surveyor) BlocksCaller(p keys.Pattern, caller netip.Addr) bool {
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
	if why := Broad(r.Pattern); why != "" {
		return why
	}
	if busy := busyShare(r.Traffic); busy != "" {
		return "it " + busy
	}
	return ""
}
