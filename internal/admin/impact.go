package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// Impact is what an entry would do, judged by the last day.
type Impact struct {
	Pattern keys.Pattern
	// Traffic is the pattern's part of the recorded traffic, nil where nothing
	// is recorded.
	Traffic *TrafficEstimate
	// Counted is what the counted keys of the pattern did, nil where nothing is
	// counted.
	Counted *Counted
	// Exemptions are the active exemptions that share keys with the pattern. A
	// block refuses no key of theirs; IsExempt says that one selects all of it.
	Exemptions []*blocks.Entry
	IsExempt   bool
	// CoveredBy are the active blocks that select all of the pattern, Covers
	// those of which it selects all.
	CoveredBy, Covers []*blocks.Entry
	// More says that there are more exemptions or blocks than are named.
	More bool
	// BlocksCaller says that a block refuses the address of the caller.
	BlocksCaller bool
	// Suggested is a narrower pattern that makes most of the offences, nil where
	// there is none. Only blocks have one.
	Suggested *Suggestion
	// ConfirmReason says why the entry needs a confirmation, "" where it needs
	// none.
	ConfirmReason string
	// Extent is how much of the addresses the pattern of an origin selects, nil for other
	// patterns and where it is not known.
	Extent *keys.Extent
	// OriginWarnings are those of Warnings about the pattern of an origin.
	OriginWarnings []string
	// Warnings are sentences about what may not be meant.
	Warnings []string
}

// Counted is what the keys of a pattern did that have a row of their own. Checks
// of other keys are Untracked: Keys and Allowed are lower bounds where IsExact is
// false.
type Counted struct {
	offences.Seen
	IsExact bool
	// AllKeys is the estimated number of distinct keys of the last day.
	AllKeys int64
}

// maxNeighbours is how many exemptions, and how many blocks, an Impact names at most.
const maxNeighbours = 20

// maxWarned is how many entries the warnings name one by one.
const maxWarned = 5

// Preview returns the impact of an entry that is not added.
func (e *Entries) Preview(ctx context.Context, c Caller, kind blocks.Kind, pattern string) (*Impact, error) {
	p, err := parsePattern(e.View, "pattern", pattern)
	if err != nil {
		return nil, err
	}
	i, err := e.impact(ctx, c, kind, p)
	if err != nil || e.Offences == nil {
		return i, err
	}
	now := e.Now()
	seen, err := e.Offences.Seen(ctx, p, now.Add(-day), now, offences.MaxEvidenceKeys)
	if err != nil {
		return nil, err
	}
	i.Counted = &Counted{Seen: seen, IsExact: seen.Untracked == 0}
	if i.Counted.AllKeys, err = e.Offences.DistinctKeys(ctx, 0, now.Add(-day), now); err != nil {
		return nil, err
	}
	if kind == blocks.Block {
		i.Suggested, err = e.suggest(ctx, p, seen)
	}
	return i, err
}

// impact returns the impact without what is counted.
func (e *Entries) impact(ctx context.Context, c Caller, kind blocks.Kind, p keys.Pattern) (*Impact, error) {
	now, set := e.Now(), e.View.Blocks()
	neighbours := func(kind blocks.Kind) ([]*blocks.Entry, bool) {
		all := set.Overlapping(kind, p, now, maxNeighbours+1)
		return all[:min(len(all), maxNeighbours)], len(all) > maxNeighbours
	}
	exemptions, moreExemptions := neighbours(blocks.Exemption)
	overlapping, moreBlocks := neighbours(blocks.Block)
	i := &Impact{Pattern: p, Exemptions: exemptions, More: moreExemptions || moreBlocks, Warnings: e.warnings(c, kind, p), OriginWarnings: originWarnings(kind, p)}
	if extent, known := keys.ExtentOf(p); known {
		i.Extent = &extent
	}
	for _, x := range i.Exemptions {
		i.IsExempt = i.IsExempt || x.Pattern.Covers(p)
	}
	for _, b := range overlapping {
		if b.Pattern.Covers(p) {
			i.CoveredBy = append(i.CoveredBy, b)
		} else {
			i.Covers = append(i.Covers, b)
		}
	}
	if kind == blocks.Exemption {
		i.ConfirmReason = BroadReason(p)
		return i, nil
	}
	i.BlocksCaller = e.blocksCaller(c.Address, p)
	var err error
	if e.Traffic != nil {
		i.Traffic, err = e.Traffic.EstimateTraffic(ctx, now.Add(-day), now, p.Matches)
	}
	i.ConfirmReason = confirmReason(p, i.Traffic)
	return i, err
}

// confirmReason says why an entry of a kind and pattern needs a confirmation, ""
// where it needs none.
func (e *Entries) confirmReason(ctx context.Context, kind blocks.Kind, p keys.Pattern) string {
	if kind == blocks.Exemption {
		return BroadReason(p)
	}
	var traffic *TrafficEstimate
	if e.Traffic != nil && !isSingle(p) && BroadReason(p) == "" {
		now := e.Now()
		// An unknown ratio must keep nobody from blocking an attacker while the
		// database fails.
		if t, err := e.Traffic.EstimateTraffic(ctx, now.Add(-day), now, p.Matches); err == nil {
			traffic = t
		}
	}
	return confirmReason(p, traffic)
}

// confirmReason says why a block needs a confirmation, "" where it needs none. A
// block of a single client never does.
func confirmReason(p keys.Pattern, traffic *TrafficEstimate) string {
	if isSingle(p) {
		return ""
	}
	if reason := BroadReason(p); reason != "" {
		return reason
	}
	if reason := trafficReason(traffic); reason != "" {
		return "it " + reason
	}
	return ""
}

// blocksCaller reports whether a block of p refuses an address, false for an
// invalid one.
func (e *Entries) blocksCaller(address netip.Addr, p keys.Pattern) bool {
	if !address.IsValid() {
		return false
	}
	k := e.View.Parser().AddressKey(address)
	return p.Matches(k) && e.View.Blocks().Match(k, e.Now()).Exemption == nil
}

// warnings says what may not be meant by an entry.
func (e *Entries) warnings(c Caller, kind blocks.Kind, p keys.Pattern) (all []string) {
	if p.Widened() {
		all = append(all, "The bare IPv6 address was read as its network, "+p.String()+"; write /128 for the single address.")
	}
	all = append(all, originWarnings(kind, p)...)
	set, now := e.View.Blocks(), e.Now()
	if kind == blocks.Exemption {
		for _, b := range set.Overlapping(blocks.Block, p, now, maxWarned) {
			if p.Covers(b.Pattern) {
				all = append(all, "This exemption covers the block "+b.ID+" of "+b.Pattern.String()+", which now refuses no request.")
			} else {
				all = append(all, "This exemption allows "+p.String()+" despite the block "+b.ID+" of "+b.Pattern.String()+".")
			}
		}
		return all
	}
	for _, x := range set.Overlapping(blocks.Exemption, p, now, maxWarned) {
		if x.Pattern.Covers(p) {
			all = append(all, "The exemption "+x.ID+" of "+x.Pattern.String()+" covers this block: it refuses no request while that is active.")
		} else {
			all = append(all, "The exemption "+x.ID+" allows "+x.Pattern.String()+" despite this block.")
		}
	}
	if e.blocksCaller(c.Address, p) {
		all = append(all, "This block refuses your own address, "+c.Address.String()+".")
	}
	return all
}

// Parts is what the equal parts of a network did in the last day.
type Parts struct {
	Bits int                 // of each part
	Seen []offences.SeenPart // those with any traffic, by address
}

const (
	maxPartBits = 8 // 256 parts
	minPartBits = 4 // fewer than 16 parts show nothing that the totals do not
)

// Parts returns what the up to 256 parts of a pattern's network did, nil where it
// is no network of at least 16 parts or where nothing is counted.
func (e *Entries) Parts(ctx context.Context, p keys.Pattern) (*Parts, error) {
	network, is := p.Network()
	if !is || e.Offences == nil {
		return nil, nil
	}
	maxBits := 32
	if network.Addr().Is6() {
		maxBits = 64 // one client
	}
	bits := min(network.Bits()+maxPartBits, maxBits)
	if bits-network.Bits() < minPartBits {
		return nil, nil
	}
	now := e.Now()
	seen, err := e.Offences.SeenParts(ctx, network, bits, now.Add(-day), now)
	return &Parts{bits, seen}, err
}

// OffenceReader reads what was counted.
type OffenceReader interface {
	Rank(ctx context.Context, q offences.Query) (offences.Ranking, error)
	// Seen reads up to limit of the keys that p selects, those with the most
	// checks first, and the sums over all of them.
	Seen(ctx context.Context, p keys.Pattern, from, to time.Time, limit int) (offences.Seen, error)
	SeenParts(ctx context.Context, network netip.Prefix, bits int, from, to time.Time) ([]offences.SeenPart, error)
	// DistinctKeys estimates the number of keys of a policy, 0 for all.
	DistinctKeys(ctx context.Context, policy int64, from, to time.Time) (int64, error)
}
