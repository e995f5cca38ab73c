package recorder

import (
	"cmp"
	"slices"
)

// measureCrowds sets the crowd of all entries of offences.
func (s *shard) measureCrowds() {
	for _, e := range s.offences.entries {
		if m := e.key.in.minute; m.units == nil {
			m.units = new(roughCounts)
			for _, other := range s.offences.entries {
				if other.key.in.minute == m {
					m.units.add(other.value.unit, 1)
				}
			}
		}
		e.value.crowd = max(1, e.key.in.minute.units.of(e.value.unit))
	}
}

// rarestFirst sorts entries, which are in order of weight, by the number of keys of the same
// safety unit, fewest first. So a network that floods with its addresses cannot keep the keys of
// all other networks from being counted, which would then never have enough offences for a block.
func rarestFirst(entries []*offenceEntry) {
	slices.SortStableFunc(entries, func(a, c *offenceEntry) int { return cmp.Compare(a.value.crowd, c.value.crowd) })
}

// evictionOrder sorts entries in the order in which entries lose their place in memory. The quarter that was
// refused most often comes last. The others come by their count divided by the number of keys
// of the same safety unit: first the keys of a network that floods with its addresses, then, of
// many networks, the keys that were refused once.
func evictionOrder(entries []*offenceEntry) {
	slices.SortFunc(entries, func(a, c *offenceEntry) int { return cmp.Compare(seen(a), seen(c)) })
	rest := entries[:len(entries)-len(entries)/4]
	slices.SortFunc(rest, func(a, c *offenceEntry) int {
		return cmp.Compare(uint64(seen(a))*uint64(c.value.crowd), uint64(seen(c))*uint64(a.value.crowd))
	})
}
