package admin

import (
	"context"
	"net/netip"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// Suggestion is a part of a pattern that has most of the pattern's offences, so that blocking
// the part is enough.
type Suggestion struct {
	Pattern keys.Pattern
	Refused int64 // its offences of the last day
	Allowed int64 // its allowed checks of the last day
}

// suggestRatio is the minimum ratio of a pattern's offences that a suggestion has.
const suggestRatio = 0.8

// suggest returns the narrowest key or range that has most of the offences of p, nil if there
// is none.
func (e *Entries) suggest(ctx context.Context, p keys.Pattern, seen offences.Seen) (*Suggestion, error) {
	if isSingle(p) || seen.Refused == 0 {
		return nil, nil
	}
	part, found := heaviestPart(p, seen)
	if !found {
		return nil, nil
	}
	now := e.Now()
	within, err := e.Offences.Seen(ctx, part, now.Add(-day), now, 1)
	if err != nil {
		return nil, err
	}
	return &Suggestion{Pattern: part, Refused: within.Refused, Allowed: within.Allowed}, nil
}

// heaviestPart returns the narrowest part of p, a key or a /24 or /48, that has suggestRatio of
// the offences.
func heaviestPart(p keys.Pattern, seen offences.Seen) (keys.Pattern, bool) {
	byKey, byRange := map[keys.Pattern]int64{}, map[keys.Pattern]int64{}
	for _, sample := range seen.Samples {
		k, err := offences.ParseKey(sample.Key)
		if err != nil {
			continue // the settings have changed since it was counted
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
			// Only one part can have more than half.
			if part != p && p.Covers(part) && float64(refused) >= suggestRatio*float64(seen.Refused) {
				return part, true
			}
		}
	}
	return keys.Pattern{}, false
}
