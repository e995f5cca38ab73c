package bouncers

import (
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// OfKey returns the bans of one key that a filter selects, the longest first, none if the key is exempt:
// those that refuse it, otherwise captchas.
func OfKey(set *blocks.Set, k keys.Key, at time.Time, f *Filter) []Ban {
	if set.Match(k, at).Exemption != nil {
		return nil
	}
	var h holes
	if _, isAddress := k.Network(); isAddress {
		h = momentAt(set, nil, Position{At: at}, false).holes
	}
	bans := func(of *blocks.Set) (all []Ban) {
		for _, e := range of.Selecting(blocks.Block, k, at) {
			t := target{key: k.String()}
			if address, is := k.Network(); is {
				t = target{network: address}
				if around, is := e.Pattern.Network(); is {
					if part, free := h.around(around, address.Addr()); free {
						t.network = part
					}
				}
			}
			if b := banOf(t, e); f.Selects(b) {
				all = append(all, b)
			}
		}
		return all
	}
	return sorted(set, f, bans)
}

// OfRange returns the bans of blocks that contain a whole network and that a filter selects, the longest
// first: those that refuse it, otherwise captchas. It returns none if any address of the network is exempt.
func OfRange(set *blocks.Set, network netip.Prefix, at time.Time, f *Filter) []Ban {
	m := momentAt(set, nil, Position{At: at}, false)
	if m.cuts(network) {
		return nil
	}
	bans := func(of *blocks.Set) (all []Ban) {
		for around, more := network, true; more; around, more = parentOf(around) {
			e := of.Of(blocks.Block, keys.NetworkPattern(around), at)
			if e == nil {
				continue
			}
			part := network
			for next, is := parentOf(part); is && next.Bits() >= around.Bits() && !m.cuts(next); next, is = parentOf(next) {
				part = next
			}
			if b := banOf(target{network: part}, e); f.Selects(b) {
				all = append(all, b)
			}
		}
		return all
	}
	return sorted(set, f, bans)
}

// sorted returns the bans of the blocks that refuse, otherwise those of the blocks that challenge, the longest
// first.
func sorted(set *blocks.Set, f *Filter, of func(*blocks.Set) []Ban) []Ban {
	var all []Ban
	for n, layer := range layersOf(set, f.Captchas) {
		if n == challenging && len(all) > 0 {
			break
		}
		all = append(all, of(layer)...)
	}
	slices.SortStableFunc(all, func(a, b Ban) int {
		switch {
		case a.outlasts(b):
			return -1
		case b.outlasts(a):
			return 1
		}
		return 0
	})
	return all
}
