package recorder

import (
	"cmp"
	"slices"

	"github.com/stint-dev/stint/internal/offences"
)

// rarestFirst sorts entries, which are in order of weight, by the number of entries with the same
// safety unit, fewest first. So a network that floods with its addresses cannot keep the keys of
// all other networks from being counted, which would then never have enough offences for a block.
func rarestFirst(entries []*offenceEntry) []*offenceEntry {
	if len(entries) < 2 {
		return entries
	}
	units := make(map[*offenceEntry]string, len(entries))
	size := map[string]int{}
	for _, e := range entries {
		unit := e.key.key
		if k, err := offences.ParseKey(unit); err == nil {
			unit = offences.SafetyUnit(k)
		}
		units[e] = unit
		size[unit]++
	}
	slices.SortStableFunc(entries, func(a, c *offenceEntry) int { return cmp.Compare(size[units[a]], size[units[c]]) })
	return entries
}
