package recorder

import (
	"cmp"
	"slices"

	"github.com/stint-dev/stint/internal/offences"
)

// rarestFirst sorts entries, the heaviest first, by how many of them count as one for the
// safety limit: one network that floods with its addresses must not keep the keys of all
// others from being counted, which then would never have enough offences for a block.
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
