package algorithms

import (
	_ "embed"
)

// PointLog is the name of the log of points.
const PointLog = "point_log"

//go:embed point_log.lua
var pointLogLua string

// pointLog is the log of amounts with a tag for each charge. No run is merged: a key has at most as
// many as the largest limit, since a charge is at least one point.
var pointLog = Algorithm{
	Name:    PointLog,
	Title:   "log of points",
	Summary: "The time, the points and the reason of each piece of evidence. Only policies with evidence use it.",
	Exact:   true,
	Amounts: true,
	Lua:     pointLogLua,
}

// Tag is what a request under the log of points is charged for, in 52 bits so that Lua represents it
// exactly: bit 51 for forgiveness, 20 bits for the item of evidence, 31 for the hash of a value. The
// zero value is a request that is charged for nothing in particular.
type Tag uint64

const (
	valueBits   = 31
	itemBits    = 20
	forgiveness = Tag(1) << (valueBits + itemBits)

	// MaxItem is the largest number of an item.
	MaxItem = 1<<itemBits - 1
)

// TagOf returns the tag of a charge for an item. value is the hash of the value that is charged at most
// once within the longest window, and 0 if every request is charged.
func TagOf(item uint32, value uint64) Tag {
	tag := Tag(item&MaxItem) << valueBits
	if value != 0 {
		tag |= Tag(value%(1<<valueBits-1)) + 1
	}
	return tag
}

// Forgive returns the tag of a request that takes up to its cost from what was charged for an item, the
// newest charges first. It is always allowed.
func Forgive(item uint32) Tag { return TagOf(item, 0) | forgiveness }

// Forgives reports whether the request takes points back.
func (t Tag) Forgives() bool { return t&forgiveness != 0 }

// Item returns the number of the item.
func (t Tag) Item() uint32 { return uint32(t>>valueBits) & MaxItem } //nolint:gosec // 20 bits

// Charge is one charge in the log of points, or in that of amounts.
type Charge struct {
	At     int64  // Unix milliseconds
	Item   uint32 // without meaning in the log of amounts
	Points int64
}

// Charges returns the charges of a state of the log of points or of amounts that are younger than window at
// now, the newest first, without open holds. It returns none for a state of another algorithm.
func Charges(numbers []int64, window, now int64) (all []Charge) {
	_, numbers = split(numbers)
	if len(numbers)%runNumbers != 0 {
		return nil
	}
	ahead := int64(0) // by how much the clock has stepped back
	if last := len(numbers) - runNumbers; last >= 0 {
		ahead = max(0, numbers[last+1]-now)
	}
	for i := len(numbers) - runNumbers; i >= 0 && numbers[i+1]-ahead+window > now; i -= runNumbers {
		all = append(all, Charge{numbers[i+1] - ahead, Tag(numbers[i]).Item(), numbers[i+2] - sumBefore(numbers, i)}) //nolint:gosec // never negative
	}
	return all
}

// has reports whether a value was charged already.
func has(runs []int64, tag Tag, since int64) bool {
	if tag%(1<<valueBits) == 0 {
		return false
	}
	for i := firstAfter(runs, since); i < len(runs); i += runNumbers {
		if Tag(runs[i]) == tag { //nolint:gosec // never negative
			return true
		}
	}
	return false
}

func (a *amounts) addTagged(s *State, q *Query) {
	runs := s.Numbers
	switch {
	case q.Tag.Forgives():
		s.Numbers = forgive(a.trim(runs, q.Now), q.Tag, q.Cost)
	case !has(runs, q.Tag, q.Now-a.longest):
		if len(runs) > 0 && a.mustTrim(runs, q.Now) {
			runs = a.trim(runs, q.Now)
		}
		runs = append(runs, int64(q.Tag), q.Now, sumBefore(runs, len(runs))+q.Cost) //nolint:gosec // 52 bits
		s.Numbers = runs
	}
}

// forgive takes up to points from the newest runs of the item of tag.
func forgive(runs []int64, tag Tag, points int64) []int64 {
	for i := len(runs) - runNumbers; i >= 0; i -= runNumbers {
		runs[i+2] -= sumBefore(runs, i)
		if Tag(runs[i]).Item() == tag.Item() { //nolint:gosec // never negative
			taken := min(points, runs[i+2])
			points, runs[i+2] = points-taken, runs[i+2]-taken
		}
	}
	kept, sum := runs[:0], int64(0)
	for ; len(runs) > 0; runs = runs[runNumbers:] {
		if run := [runNumbers]int64(runs); run[2] > 0 {
			sum += run[2]
			kept = append(kept, run[0], run[1], sum)
		}
	}
	return kept
}
