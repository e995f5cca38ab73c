package bouncers

import (
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// OfKey returns the bans of one key, the longest first, none if the key is exempt.
func OfKey(set *blocks.Set, k keys.Key, at time.Time) []Ban {
	if !set.Match(k, at).Refuses() {
		return nil
	}
	var h holes
	if _, isAddress := k.Network(); isAddress {
		h = momentAt(set, nil, Position{At: at}).holes
	}
	var all []Ban
	for _, e := range set.Selecting(blocks.Block, k, at) {
		t := target{key: k.String()}
		if address, is := k.Network(); is {
			t = target{network: address}
			if around, is := e.Pattern.Network(); is {
				if part, free := h.around(around, address.Addr()); free {
					t.network = part
				}
			}
		}
		all = append(all, banOf(t, e))
	}
	sortBans(all)
	return all
}

// OfRange returns the bans of blocks that contain a whole network, the longest first. It
// returns none if any address of the network is exempt.
func OfRange(set *blocks.Set, network netip.Prefix, at time.Time) []Ban {
	m := momentAt(set, nil, Position{At: at})
	if m.cuts(network) {
		return nil
	}
	var all []Ban
	for around, more := network, true; more; around, more = parentOf(around) {
		e := m.block(keys.NetworkPattern(around))
		if e == nil {
			continue
		}
		part := network
		for next, is := parentOf(part); is && next.Bits() >= around.Bits() && !m.cuts(next); next, is = parentOf(next) {
			part = next
		}
		all = append(all, banOf(target{network: part}, e))
	}
	sortBans(all)
	return all
}

func sortBans(all []Ban) {
	slices.SortStableFunc(all, func(a, b Ban) int {
		switch {
		case a.outlasts(b):
			return -1
		case b.outlasts(a):
			return 1
		}
		return 0
	})
}
