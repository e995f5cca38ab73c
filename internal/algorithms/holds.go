package algorithms

import (
	"cmp"
	"slices"
)

// Bounds of holds in the log of amounts.
const (
	// MaxHolds is how many holds one key may have: the open ones, and expired ones that are still known.
	MaxHolds = 1024
	// MaxHold is the longest time of a hold, in milliseconds.
	MaxHold = 86_400_000

	holdNumbers      = 5
	minLate, maxLate = 60_000, 3_600_000
)

// A state of the log of amounts with holds begins with their number, negated. Each hold follows as five
// numbers: its tag; the time at which it was taken; its amount, negated once it has expired; the time
// at which it expires; and its source. The runs follow. A state without holds has only runs, whose first number is never
// negative.
//
// An open hold counts in every window, until it is settled or expires, and its amount counts at the
// time at which it was taken, however it ends. So what is charged and what is held never exceed a limit
// together, and what is returned leaves nothing behind. An expired hold is remembered for as long as
// it was open, at least a minute and at most an hour, so that a late settlement charges what was used,
// and charges it once.

// HoldTag returns the tag of the hold whose ID has a hash. releases says that nothing of it stays charged
// if it expires.
func HoldTag(hash uint64, releases bool) Tag {
	tag := Tag(hash%uint64(forgiveness-1)) + 1
	if releases {
		tag |= forgiveness
	}
	return tag
}

// releases reports whether nothing of a hold stays charged when it expires.
func (t Tag) releases() bool { return t&forgiveness != 0 }

// Hold is a hold in the log of amounts.
type Hold struct {
	Taken, Expires int64 // Unix milliseconds
	Amount         int64
	Source         int64 // that of the Query
}

// Holds returns the open holds of a state of the log of amounts at now, the oldest first.
func Holds(numbers []int64, now int64) (open []Hold) {
	holds, _ := split(numbers)
	for ; len(holds) > 0; holds = holds[holdNumbers:] {
		if holds[2] > 0 && holds[3] > now {
			open = append(open, Hold{Taken: holds[1], Amount: holds[2], Expires: holds[3], Source: holds[4]})
		}
	}
	return open
}

// HasHolds reports whether a state has holds, open or expired.
func HasHolds(numbers []int64) bool { return len(numbers) > 0 && numbers[0] < 0 }

// split returns the holds and the runs of a state.
func split(numbers []int64) (holds, runs []int64) {
	if !HasHolds(numbers) {
		return nil, numbers
	}
	end := min(len(numbers), 1-int(numbers[0])*holdNumbers)
	end -= (end - 1) % holdNumbers
	return numbers[1:end:end], numbers[end:]
}

// join returns the state with holds and runs.
func join(holds, runs []int64) []int64 {
	if len(holds) == 0 {
		return slices.Clone(runs)
	}
	all := make([]int64, 0, 1+len(holds)+len(runs))
	all = append(all, -int64(len(holds)/holdNumbers))
	return append(append(all, holds...), runs...)
}

// ends returns when something becomes of a hold by itself: when it expires, or when it is forgotten.
func ends(h []int64) int64 {
	if h[2] > 0 {
		return h[3]
	}
	return h[3] + late(h)
}

// late returns for how long an expired hold is remembered.
func late(h []int64) int64 { return min(max(h[3]-h[1], minLate), maxLate) }

// end ends the holds that have expired at now, and forgets those that expired long ago. A hold that keeps
// its amount leaves it in a run. Holds are in the order in which they were taken.
func (a *amounts) end(holds, runs []int64, now int64) (kept, all []int64) {
	var ended []timed
	kept = make([]int64, 0, len(holds))
	for ; len(holds) > 0; holds = holds[holdNumbers:] {
		h := [holdNumbers]int64(holds)
		if h[3] <= now && h[2] > 0 {
			if !Tag(h[0]).releases() { //nolint:gosec // 52 bits
				ended = append(ended, timed{h[1], h[2]})
			}
			h[2] = -h[2]
		}
		if h[3] > now || h[3]+late(h[:]) > now {
			kept = append(kept, h[:]...)
		}
	}
	return kept, a.insertAll(slices.Clone(runs), ended, now)
}

// timed is an amount, and when it was charged or stops counting.
type timed struct{ at, amount int64 }

// insert adds an amount at a time up to now, unless no window contains it any more.
func (a *amounts) insert(runs []int64, at, amount, now int64) []int64 {
	if n := len(runs); n > 0 && n < a.most*runNumbers && runs[n-2] <= at && amount > 0 && at+a.longest > now && runs[n-1]+amount <= maxTotal && !a.mustTrim(runs, now) {
		if runs[n-2] == at {
			runs[n-1] += amount
			return runs
		}
		return append(runs, at, at, runs[n-1]+amount)
	}
	return a.insertAll(runs, []timed{{at, amount}}, now)
}

// insertAll adds amounts, in the order of their times, as insert does, in one pass over the later runs.
func (a *amounts) insertAll(runs []int64, added []timed, now int64) []int64 {
	for len(added) > 0 && added[0].at+a.longest <= now {
		added = added[1:]
	}
	total := int64(0)
	for _, c := range added {
		total += c.amount
	}
	if total <= 0 {
		return runs
	}
	n := len(runs) / runNumbers
	if n > 0 && (a.mustTrim(runs, now) || n >= a.most || runs[len(runs)-1]+total > maxTotal) {
		runs = a.trim(runs, now)
	}
	if runs = place(runs, added); len(runs) > a.most*runNumbers {
		runs = a.merge(runs, now)
	}
	return runs
}

// place adds amounts to runs, one of the same time or new ones.
func place(runs []int64, added []timed) []int64 {
	i := firstAfter(runs, added[0].at)
	later, sum := slices.Clone(runs[i:]), int64(0)
	runs = runs[:i]
	take := func() {
		runs = append(runs, later[0], later[1], later[2]+sum)
		later = later[runNumbers:]
	}
	for _, c := range added {
		for len(later) > 0 && later[1] <= c.at {
			take()
		}
		if sum += c.amount; len(runs) == 0 || runs[len(runs)-2] != c.at {
			runs = append(runs, c.at, c.at, sumBefore(runs, len(runs)))
		}
		runs[len(runs)-1] += c.amount
	}
	for len(later) > 0 {
		take()
	}
	return runs
}

// openHolds returns how many holds are open and what they total.
func openHolds(holds []int64) (open, held int64) {
	for ; len(holds) > 0; holds = holds[holdNumbers:] {
		if holds[2] > 0 {
			open, held = open+1, held+holds[2]
		}
	}
	return open, held
}

// findHold returns the index of the hold with a tag, -1 if there is none.
func findHold(holds []int64, tag Tag) int {
	for i := 0; i < len(holds); i += holdNumbers {
		if Tag(holds[i]) == tag { //nolint:gosec // 52 bits
			return i
		}
	}
	return -1
}

// heldWait is wait for a key with holds: it considers that they expire. Runs stop counting in their order, so
// that only the holds are sorted.
func heldWait(r *Rule, holds, runs []int64, now, cost int64) int64 {
	total, oldest := used(runs, r.since(now))
	_, held := openHolds(holds)
	excess, free := total+held+cost-r.Limit, now
	if excess <= 0 {
		return 0
	}
	var open []timed // when they stop counting
	for i := 0; i < len(holds); i += holdNumbers {
		if holds[i+2] > 0 {
			open = append(open, timed{holdLeaves(r, holds[i:], now), holds[i+2]})
		}
	}
	slices.SortFunc(open, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	for i := oldest; excess > 0; {
		if i == len(runs) || len(open) > 0 && open[0].at < r.leaves(runs[i+1], now) {
			free, excess, open = open[0].at, excess-open[0].amount, open[1:]
			continue
		}
		free, excess = r.leaves(runs[i+1], now), excess-(runs[i+2]-sumBefore(runs, i))
		i += runNumbers
	}
	return free - now
}

// holdLeaves returns when an open hold stops counting in r's window if it is never settled.
func holdLeaves(r *Rule, h []int64, now int64) int64 {
	if Tag(h[0]).releases() { //nolint:gosec // 52 bits
		return h[3]
	}
	return max(h[3], r.leaves(h[1], now))
}

// slotWait returns how long fewer than most holds are not open.
func slotWait(holds []int64, most, now int64) int64 {
	var ends []int64
	for i := 0; i < len(holds); i += holdNumbers {
		if holds[i+2] > 0 {
			ends = append(ends, holds[i+3])
		}
	}
	if int64(len(ends)) < most {
		return 0
	}
	slices.Sort(ends)
	return ends[int64(len(ends))-most] - now
}

// addHold takes a hold. If there are as many as a key may have, the expired one that ended first is
// forgotten.
func (a *amounts) addHold(s *State, q *Query) {
	holds, runs := split(s.Numbers)
	if findHold(holds, q.Tag) >= 0 {
		return
	}
	if len(holds) >= MaxHolds*holdNumbers {
		first := -1
		for i := 0; i < len(holds); i += holdNumbers {
			if holds[i+2] < 0 && (first < 0 || holds[i+3] < holds[first+3]) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		holds = slices.Delete(slices.Clone(holds), first, first+holdNumbers)
	}
	taken := [...]int64{int64(q.Tag), q.Now, q.Cost, q.Now + q.Hold, q.Source} //nolint:gosec // 52 bits
	s.Numbers = slices.Concat([]int64{-int64(len(holds)/holdNumbers) - 1}, holds, taken[:], runs)
}

// dropHold removes the hold at an index of the holds of a state.
func (s *State) dropHold(holds []int64, i int) {
	left := len(holds)/holdNumbers - 1
	s.Numbers[0] = -int64(left)
	if s.Numbers = slices.Delete(s.Numbers, 1+i, 1+i+holdNumbers); left == 0 {
		s.Numbers = slices.Delete(s.Numbers, 0, 1)
	}
}

// HoldState is what became of a hold.
type HoldState int

// The states of a hold.
const (
	HoldUnknown HoldState = iota // it was never taken, or is forgotten
	HoldOpen
	HoldSettled
	HoldExpired // before it was settled
)

// Settlement ends a hold, or renews it if Extend is set.
type Settlement struct {
	Tag    Tag
	Now    int64
	Cost   int64 // what was used; 0 leaves nothing charged, AsHeld is what was held
	Extend int64 // milliseconds from now
}

// AsHeld is the Cost of a settlement that charges what was held.
const AsHeld = -1

// Settled is the answer to a Settlement.
type Settled struct {
	State   HoldState
	Held    int64 // what was held
	Cost    int64 // what was used
	Over    int64 // how much of Cost is beyond a limit
	Expires int64 // when the hold expires or expired; 0 if that is not known
	Was     int64 // the Expires before this renewed the hold; 0 if it did not
	Changed bool  // whether the state must be stored
}

// Settle ends or renews a hold under the log of amounts. Up to what was held is charged at the time at which
// the hold was taken, the rest at now, even if it exceeds a limit. If the hold has expired, only what is
// not charged yet is charged.
func (k *Stack) Settle(s *State, c Settlement) Settled {
	if k.amounts == nil {
		return Settled{}
	}
	return k.amounts.settle(s, c)
}

func (a *amounts) settle(s *State, c Settlement) (r Settled) {
	r.Changed = a.advance(s, c.Now)
	holds, _ := split(s.Numbers)
	i := findHold(holds, c.Tag)
	if i < 0 {
		return r
	}
	h := holds[i : i+holdNumbers]
	taken, isOpen := h[1], h[2] > 0
	r.State, r.Held, r.Expires = HoldExpired, max(h[2], -h[2]), h[3]
	if c.Extend > 0 {
		if isOpen {
			r.Was, h[3] = h[3], max(h[3], c.Now+c.Extend)
			r.State, r.Expires, r.Changed = HoldOpen, h[3], true
		}
		return r
	}
	if r.Cost = c.Cost; c.Cost == AsHeld {
		r.Cost = r.Held
	}
	own, more := int64(0), r.Cost
	switch {
	case isOpen:
		r.State, own = HoldSettled, min(r.Cost, r.Held)
		more -= own
	case !c.Tag.releases():
		more = max(0, r.Cost-r.Held)
	}
	s.dropHold(holds, i)
	_, runs := split(s.Numbers)
	before := len(s.Numbers) - len(runs)
	s.Numbers, r.Changed = append(s.Numbers[:before], a.charge(a.insert(runs, taken, own, c.Now), c.Now, more)...), true
	if more > 0 {
		holds, runs = split(s.Numbers)
		_, held := openHolds(holds)
		for _, rule := range a.rules {
			if total, _ := used(runs, rule.since(c.Now)); rule.Window > 0 {
				r.Over = max(r.Over, min(more, total+held-rule.Limit))
			}
		}
	}
	return r
}
