package admin

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/proxies"
)

// Impact is the predicted effect of an entry, based on the last day.
type Impact struct {
	// Pattern is the first of Patterns, which are more than one for a range or a list: then all
	// else is of them together, and there is no Suggested.
	Pattern  keys.Pattern
	Patterns []keys.Pattern
	// Traffic is the pattern's part of the recorded traffic, nil if nothing is recorded, and for patterns
	// of bots, since traffic is recorded by the keys that are checked.
	Traffic *TrafficEstimate
	// Counted is the activity of the counted keys of the pattern, nil if nothing is counted, and for
	// patterns of bots.
	Counted *Counted
	// Exemptions are the active exemptions that share keys with the pattern. A block does not
	// refuse those keys. IsExempt means that one exemption selects the whole pattern.
	Exemptions []*blocks.Entry
	IsExempt   bool
	// CoveredBy are the active blocks that select the whole pattern. Covers are the active
	// blocks that the pattern selects wholly.
	CoveredBy, Covers []*blocks.Entry
	// More means that there are more exemptions or blocks than are listed.
	More bool
	// BlocksCaller means that a block would refuse the caller's address.
	BlocksCaller bool
	// Suggested is a narrower pattern with most of the offences, nil if there is none. Only
	// blocks have one.
	Suggested *Suggestion
	// ConfirmReason is why the entry needs a confirmation, "" if it needs none.
	ConfirmReason string
	// Extent is how many addresses the pattern of an origin selects, nil for other patterns and
	// if it is unknown.
	Extent *keys.Extent
	// OriginWarnings are the Warnings about the pattern of an origin.
	OriginWarnings []string
	// Warnings are sentences about possible mistakes.
	Warnings []string
}

// Counted is the activity of those keys of a pattern that have a row of their own. Checks of
// other keys are Untracked: if IsExact is false, Keys and Allowed are lower bounds.
type Counted struct {
	offences.Seen
	IsExact bool
	// AllKeys is the estimated number of distinct keys of the last day.
	AllKeys int64
}

// maxNeighbours bounds the exemptions, and the blocks, that an Impact lists.
const maxNeighbours = 20

// maxWarned bounds the entries that the warnings list individually.
const maxWarned = 5

// Preview returns the impact of the entries that Add would add for a text, without adding them.
func (e *Entries) Preview(ctx context.Context, c Caller, kind blocks.Kind, text string, literal bool) (*Impact, error) {
	all, err := e.readPatterns(ctx, "pattern", text, literal)
	if err != nil {
		return nil, err
	}
	i, err := e.impact(ctx, c, kind, all...)
	if err != nil || e.Offences == nil || slices.ContainsFunc(all, isOfBots) {
		return i, err
	}
	now := e.Now()
	i.Counted = &Counted{}
	for _, p := range all {
		seen, err := e.Offences.Seen(ctx, p, now.Add(-day), now, offences.MaxEvidenceKeys)
		if err != nil {
			return nil, err
		}
		seen.Keys += i.Counted.Keys
		seen.Offenders += i.Counted.Offenders
		seen.Allowed += i.Counted.Allowed
		seen.Refused += i.Counted.Refused
		*i.Counted = Counted{Seen: seen, IsExact: seen.Untracked == 0}
	}
	if i.Counted.AllKeys, err = e.Offences.DistinctKeys(ctx, 0, now.Add(-day), now); err != nil {
		return nil, err
	}
	if kind == blocks.Block && len(all) == 1 {
		i.Suggested, err = e.suggest(ctx, all[0], i.Counted.Seen)
	}
	return i, err
}

// Text lists the patterns as a request may spell them.
func (i *Impact) Text() string { return keys.Join(i.Patterns, 0) }

// selectedBy returns a function that reports whether one of several patterns selects a key.
func selectedBy(all []keys.Pattern) func(keys.Key) bool {
	return func(k keys.Key) bool {
		return slices.ContainsFunc(all, func(p keys.Pattern) bool { return p.Matches(k) })
	}
}

// impact returns the impact without the fields that need counts.
func (e *Entries) impact(ctx context.Context, c Caller, kind blocks.Kind, all ...keys.Pattern) (*Impact, error) {
	now := e.Now()
	i := &Impact{Pattern: all[0], Patterns: all}
	for _, p := range all {
		e.addNeighbours(i, p)
		i.Warnings = append(i.Warnings, e.warnings(c, kind, p)...)
		i.OriginWarnings = append(i.OriginWarnings, originWarnings(kind, p)...)
		i.BlocksCaller = i.BlocksCaller || kind == blocks.Block && e.blocksCaller(c.Address, p)
	}
	if extent, known := keys.ExtentOf(all[0]); known && len(all) == 1 {
		i.Extent = &extent
	}
	var err error
	if e.Traffic != nil && kind == blocks.Block && !slices.ContainsFunc(all, isOfBots) {
		i.Traffic, err = e.Traffic.EstimateTraffic(ctx, now.Add(-day), now, selectedBy(all))
	}
	i.ConfirmReason = confirmReason(kind, all, i.Traffic)
	return i, err
}

// addNeighbours adds the entries that share keys with one pattern of an impact.
func (e *Entries) addNeighbours(i *Impact, p keys.Pattern) {
	add := func(kind blocks.Kind, listed int, add func(*blocks.Entry)) {
		all := e.View.Blocks().Overlapping(kind, p, e.Now(), maxNeighbours+1)
		for _, x := range all[:min(len(all), max(0, maxNeighbours-listed))] {
			add(x)
		}
		i.More = i.More || len(all)+listed > maxNeighbours
	}
	isExempt := false
	add(blocks.Exemption, len(i.Exemptions), func(x *blocks.Entry) {
		i.Exemptions = append(i.Exemptions, x)
		isExempt = isExempt || x.Pattern.Covers(p)
	})
	i.IsExempt = isExempt && (i.IsExempt || p == i.Patterns[0])
	add(blocks.Block, len(i.CoveredBy)+len(i.Covers), func(b *blocks.Entry) {
		if b.Pattern.Covers(p) {
			i.CoveredBy = append(i.CoveredBy, b)
		} else {
			i.Covers = append(i.Covers, b)
		}
	})
}

// confirmReason says why entries of a kind and of patterns need a confirmation, "" if they need
// none.
func (e *Entries) confirmReason(ctx context.Context, kind blocks.Kind, all ...keys.Pattern) string {
	var traffic *TrafficEstimate
	if kind == blocks.Block && e.Traffic != nil && confirmReason(kind, all, nil) == "" && (len(all) > 1 || !isSingle(all[0])) {
		now := e.Now()
		// If the ratio is unknown because the database fails, it must still be possible to
		// block an attacker.
		if t, err := e.Traffic.EstimateTraffic(ctx, now.Add(-day), now, selectedBy(all)); err == nil {
			traffic = t
		}
	}
	return confirmReason(kind, all, traffic)
}

// confirmReason says why entries need a confirmation, "" if they need none. A block of a single
// client never needs one.
func confirmReason(kind blocks.Kind, all []keys.Pattern, traffic *TrafficEstimate) string {
	if kind == blocks.Block && len(all) == 1 && isSingle(all[0]) {
		return ""
	}
	for _, p := range all {
		if reason := BroadReason(p); reason != "" {
			return reason
		}
	}
	if reason := trafficReason(traffic); kind == blocks.Block && reason != "" {
		if len(all) > 1 {
			return "together they " + reason
		}
		return "it " + reason
	}
	return ""
}

// blocksCaller reports whether a block of p would refuse an address. It is false for an invalid
// address.
func (e *Entries) blocksCaller(address netip.Addr, p keys.Pattern) bool {
	if !address.IsValid() {
		return false
	}
	k := e.View.Parser().AddressKey(address)
	return p.Matches(k) && e.View.Blocks().Match(k, e.Now()).Exemption == nil
}

// warnings returns sentences about possible mistakes in an entry.
func (e *Entries) warnings(c Caller, kind blocks.Kind, p keys.Pattern) (all []string) {
	if p.Widened() {
		all = append(all, "The bare IPv6 address was read as its network, "+p.String()+"; write /128 for the single address.")
	}
	if network, isNetwork := p.Network(); isNetwork && kind == blocks.Block && proxies.OverlapsCDN(network) != "" {
		all = append(all, "Edges of "+proxies.OverlapsCDN(network)+" are in it, with thousands of visitors behind each. Block what the visitors themselves are known by.")
	}
	if isOfBots(p) && !bots.IsSelected(p) {
		all = append(all, "No bot that this node knows is selected by "+p.String()+".")
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

// Parts is the activity of the equal parts of a network in the last day.
type Parts struct {
	Bits int                 // of each part
	Seen []offences.SeenPart // parts with any traffic, by address
}

const (
	maxPartBits = 8 // 256 parts
	minPartBits = 4 // fewer than 16 parts show no more than the totals
)

// Parts returns the activity of up to 256 parts of a pattern's network. It returns nil if the
// pattern is not a network of at least 16 parts, or if nothing is counted.
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

// OffenceReader reads counts.
type OffenceReader interface {
	Rank(ctx context.Context, q offences.Query) (offences.Ranking, error)
	// Seen reads up to limit of the keys that p selects, those with the most
	// checks first, and the sums over all of them.
	Seen(ctx context.Context, p keys.Pattern, from, to time.Time, limit int) (offences.Seen, error)
	SeenParts(ctx context.Context, network netip.Prefix, bits int, from, to time.Time) ([]offences.SeenPart, error)
	// DistinctKeys estimates the number of keys of a policy, 0 for all.
	DistinctKeys(ctx context.Context, policy int64, from, to time.Time) (int64, error)
}
