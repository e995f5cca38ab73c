package adminui

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// narrower is a part of a pattern that alone stops most of its offences.
type narrower struct {
	Pattern keys.Pattern
	Stops   int64 // offences of the last day
	Of      int64 // of the whole pattern
	Allowed int64 // allowed requests that it would refuse
	All     int64 // of every key
}

// enoughOffences is the part of a pattern's offences that a narrower one must
// stop to be offered in its place.
const enoughOffences = 0.8

// narrowerOf returns the narrowest key or range that makes most of the trouble
// within p, nil for none.
func (h *entriesHandler) narrowerOf(ctx context.Context, p keys.Pattern, seen offences.Seen) (*narrower, error) {
	if blocklist.Single(p) || seen.Refused == 0 {
		return nil, nil
	}
	best, found := heaviestPart(p, seen)
	if !found {
		return nil, nil
	}
	now := h.Now()
	within, err := h.offenders.Store.Seen(ctx, best, now.Add(-24*time.Hour), now, 1)
	if err != nil {
		return nil, err
	}
	return &narrower{Pattern: best, Stops: within.Refused, Of: seen.Refused, Allowed: within.Allowed, All: seen.AllAllowed}, nil
}

// heaviestPart returns the narrowest of the parts of p, a key or a /24 or /48, that
// makes enough of the offences by the keys that were seen.
func heaviestPart(p keys.Pattern, seen offences.Seen) (keys.Pattern, bool) {
	byKey, byRange := map[keys.Pattern]int64{}, map[keys.Pattern]int64{}
	for _, sample := range seen.Samples {
		k, err := offences.ParseKey(sample.Key)
		if err != nil {
			continue // a key of settings that have changed since
		}
		own := keys.PatternOf(k)
		byKey[own] += sample.Refused
		if network, is := own.Network(); is {
			bits := 24
			if network.Addr().Is6() {
				bits = 48
			}
			if bits < network.Bits() {
				byRange[keys.NetworkPattern(netip.PrefixFrom(network.Addr(), bits).Masked())] += sample.Refused
			}
		}
	}
	for _, parts := range []map[keys.Pattern]int64{byKey, byRange} {
		for part, refused := range parts {
			// Of so large a part there is only one.
			if part != p && p.Covers(part) && float64(refused) >= enoughOffences*float64(seen.Refused) {
				return part, true
			}
		}
	}
	return keys.Pattern{}, false
}

// gridOf draws what the parts of a pattern did in the last day, nil where it is
// no network of many parts. A frame marks the part that is, or contains, marked.
func (h *entriesHandler) gridOf(ctx context.Context, p, marked keys.Pattern) (*chart.Grid, error) {
	network, is := p.Network()
	if !is {
		return nil, nil
	}
	bits, many := chart.PartBits(network)
	if !many {
		return nil, nil
	}
	now := h.Now()
	parts, err := h.offenders.Store.SeenParts(ctx, network, bits, now.Add(-24*time.Hour), now)
	if err != nil {
		return nil, err
	}
	return chart.DrawGrid(network, bits, parts, marked), nil
}
