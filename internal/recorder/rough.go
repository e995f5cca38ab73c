package recorder

import "math"

// roughCounts counts more hashes than there is memory for: a count-min sketch (Cormode and
// Muthukrishnan, 2005). A count is never too small, except that it ends at 255. The zero value is
// empty.
type roughCounts [4][roughColumns]uint8

// roughColumns is a power of two. With 5,000 hashes, which are 150,000 in all shards, one count in 200
// is too large.
const roughColumns = 1 << 14

// column returns the column of a hash in a row: 14 other bits of the hash for each.
func (*roughCounts) column(row int, hash uint64) uint64 {
	return hash >> (14 * row) & (roughColumns - 1)
}

func (c *roughCounts) add(hash uint64, count uint32) {
	for row := range c {
		at := &c[row][c.column(row, hash)]
		*at = uint8(min(uint32(*at)+count, math.MaxUint8))
	}
}

func (c *roughCounts) of(hash uint64) uint32 {
	least := uint8(math.MaxUint8)
	for row := range c {
		least = min(least, c[row][c.column(row, hash)])
	}
	return uint32(least)
}
