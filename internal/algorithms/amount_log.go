package algorithms

import (
	_ "embed"
	"slices"
)

// AmountLog is the name of the log of amounts.
const AmountLog = "amount_log"

//go:embed amount_log.lua
var amountLogLua string

var amountLog = Algorithm{
	Name:  AmountLog,
	Title: "log of amounts",
	Summary: "The time and the cost of each request, for limits and costs up to 10^15: tokens, bytes, rows. " +
		"Never more than N in any window; exact for some 1,000 times a key, and beyond that a wait may be too long by 1/256 of its window. " +
		"An amount can be held until it is known what was used.",
	Exact:   true,
	Amounts: true,
	Lua:     amountLogLua,
}

// MaxAmount is the largest limit and the largest cost under the log of amounts. Nine times as much
// is still below 2^53.
const MaxAmount = 1_000_000_000_000_000

// maxTotal bounds the total of the charges of one key, so that Lua represents it and what is held
// exactly. Only costs that are charged beyond a limit can reach it.
const maxTotal = 1 << 52

// amounts counts for the log of amounts. Numbers holds runs, the oldest first, each of
// three numbers: the time of the earliest request in the run, the time at which the run counts,
// which is that of the latest, and the sum of the amounts of this run and of all before it. So a
// window is summed by finding where it begins, and a run leaves a window no earlier than any of
// its requests would. Runs are merged only when there are more than most of them, and only if the
// whole run then spans at most a grain: 1/256 of the shortest window that the run is in.
//
// Two neighbours that could not be merged span more than a grain together, so at most 514 runs
// of a window remain, and a pass over all of them is needed once in some 500 new runs. Runs that
// have left every window are dropped once they are an eighth of all, so that most requests move none.
type amounts struct {
	rules   []Rule
	longest int64 // window
	most    int   // how many runs a state may have before they are merged
	// tagged is set for the log of points, whose runs have a tag in place of the time of their earliest
	// request, and are neither joined nor merged.
	tagged bool
}

const (
	runNumbers = 3
	grains     = 256
	trimEvery  = 16 // at a multiple of so many runs old ones may be dropped
)

func newAmounts(rules []Rule, tagged bool) *amounts {
	a := &amounts{rules: rules, most: 512 + 2*(grains+1)*len(rules), tagged: tagged}
	for _, r := range rules {
		a.longest = max(a.longest, r.Window)
	}
	return a
}

// sumBefore returns the sum of all runs before the one whose numbers begin at i. For the length of runs it
// is the sum of all.
func sumBefore(runs []int64, i int) int64 {
	if i == 0 {
		return 0
	}
	return runs[i-1]
}

// advance ends the holds that have expired. Runs and holds that were made ahead of now show that the
// clock stepped back: then all are shifted back until none is. It reports whether it did either, so that
// the state is stored and the next request need not do it again.
func (a *amounts) advance(s *State, now int64) (changed bool) {
	holds, runs := split(s.Numbers)
	if odd := len(runs) % runNumbers; odd > 0 {
		runs = runs[:len(runs)-odd]
		s.Numbers = s.Numbers[:len(s.Numbers)-odd]
	}
	newest, expires := now, Never
	if last := len(runs) - runNumbers; last >= 0 {
		if newest = max(newest, runs[last+1]); runs[last+1]+a.longest <= now {
			s.Numbers, runs = s.Numbers[:len(s.Numbers)-len(runs)], nil
		}
	}
	for i := 0; i < len(holds); i += holdNumbers {
		newest = max(newest, holds[i+1])
	}
	if by := newest - now; by > 0 {
		for i := 0; i < len(runs); i += runNumbers {
			runs[i+1] = a.back(runs[i+1], by, now)
			if !a.tagged {
				runs[i] = a.back(runs[i], by, now)
			}
		}
		for i := 0; i < len(holds); i += holdNumbers {
			holds[i+1] = a.back(holds[i+1], by, now)
			holds[i+3] -= by
		}
		changed = true
	}
	for i := 0; i < len(holds); i += holdNumbers {
		expires = min(expires, ends(holds[i:]))
	}
	if expires <= now {
		s.Numbers = join(a.end(holds, runs, now))
		changed = true
	}
	return changed
}

// trim drops the runs that have left every window.
func (a *amounts) trim(runs []int64, now int64) []int64 {
	gone := firstAfter(runs, now-a.longest)
	dropped := sumBefore(runs, gone)
	runs = runs[:copy(runs, runs[gone:])]
	for i := 2; dropped > 0 && i < len(runs); i += runNumbers {
		runs[i] -= dropped
	}
	return runs
}

// firstAfter returns the index of the oldest run that is later than since, their length if none is. As
// requests tend to come at a steady rate, it interpolates in every other step, and bisects in the others.
func firstAfter(runs []int64, since int64) int {
	low, high := 0, len(runs)/runNumbers-1 // the run low is not later, high is
	if high < 0 || runs[high*runNumbers+1] <= since {
		return len(runs)
	}
	lowAt, highAt := runs[1], runs[high*runNumbers+1]
	if lowAt > since {
		return 0
	}
	for byRate := true; high-low > 1; byRate = !byRate {
		i := (low + high + 1) / 2
		if byRate {
			i = min(max(low+1, high-int(int64(high-low)*(highAt-since)/(highAt-lowAt))), high)
		}
		at, before := runs[i*runNumbers+1], runs[(i-1)*runNumbers+1]
		switch {
		case at <= since:
			low, lowAt = i, at
		case before <= since:
			return i * runNumbers
		default:
			high, highAt = i-1, before
		}
	}
	return high * runNumbers
}

// used returns the total of the runs that are later than since, and the index of the oldest of them.
func used(runs []int64, since int64) (total int64, oldest int) {
	oldest = firstAfter(runs, since)
	return sumBefore(runs, len(runs)) - sumBefore(runs, oldest), oldest
}

// lastOver returns the index of the newest run that must leave before what is left is at most an amount, which is
// less than all runs total. As costs tend to be alike, it interpolates in every other step, and bisects in the others.
func lastOver(runs []int64, most int64) int {
	low, high, lowSum, highSum := 0, len(runs)/runNumbers-1, int64(0), runs[len(runs)-1] // the sums before low and of high
	least := highSum - most                                                              // of the first run whose sum is that much
	for byShare := true; high > low; byShare = !byShare {
		i := (low + high) / 2
		if byShare {
			i = min(high, low+int(share(int64(high-low+1), least-lowSum-1, highSum-lowSum)))
		}
		sum, before := runs[i*runNumbers+2], lowSum
		if i > low {
			before = runs[i*runNumbers-1]
		}
		switch {
		case sum < least:
			low, lowSum = i+1, sum
		case before < least:
			return i * runNumbers
		default:
			high, highSum = i-1, before
		}
	}
	return high * runNumbers
}

// share returns of*part/whole, rounded down: exactly for usual sums, and a guess for those that are far larger.
func share(of, part, whole int64) int64 {
	if whole < 1<<49 {
		return of * part / whole
	}
	return of * (part >> 16) / (whole >> 16)
}

// wait returns how long r refuses a cost of at most its limit, in milliseconds.
func wait(r *Rule, runs []int64, now, cost int64) int64 {
	most := r.Limit - cost
	if len(runs) == 0 || runs[len(runs)-1] <= most {
		return 0
	}
	since := r.since(now)
	if runs[len(runs)-2] <= since {
		return 0
	}
	at := runs[lastOver(runs, most)+1]
	if at <= since {
		return 0
	}
	return r.leaves(at, now) - now
}

func (a *amounts) ask(s *State, q *Query) Result {
	v := Result{AllowedAt: q.Now, Rule: -1, Changed: a.advance(s, q.Now)}
	if a.tagged && (q.Tag.Forgives() || has(s.Numbers, q.Tag, q.Now-a.longest)) {
		v.Allowed = true
		return v
	}
	holds, runs := split(s.Numbers)
	if q.Hold > 0 && findHold(holds, q.Tag) >= 0 {
		v.Allowed = true
		return v
	}
	for i := range a.rules {
		its := a.waitOf(&a.rules[i], holds, runs, q)
		if its == Never {
			v.AllowedAt, v.RetryAt, v.Rule = Never, Never, i
			return v
		}
		if at := q.Now + its; at > v.AllowedAt {
			v.AllowedAt, v.RetryAt, v.Rule = at, at, i
		}
	}
	if q.Hold > 0 && len(a.rules) > 0 {
		if at := q.Now + slotWait(holds, MaxHolds, q.Now); at > v.AllowedAt {
			v.AllowedAt, v.RetryAt, v.Rule, v.TooManyHolds = at, at, len(a.rules)-1, true
		}
	}
	v.Allowed = v.Rule < 0
	return v
}

// waitOf returns how long r refuses q, Never if it always does.
func (a *amounts) waitOf(r *Rule, holds, runs []int64, q *Query) int64 {
	switch {
	case r.Window == 0 && q.Hold == 0:
		return 0
	case r.Window == 0 && r.Limit == 0:
		return Never
	case r.Window == 0:
		return slotWait(holds, r.Limit, q.Now)
	case q.Cost > r.Limit:
		return Never
	case len(holds) > 0:
		return heldWait(r, holds, runs, q.Now, q.Cost)
	}
	return wait(r, runs, q.Now, q.Cost)
}

func (a *amounts) add(s *State, q *Query) {
	if a.tagged {
		a.addTagged(s, q)
		return
	}
	if q.Hold > 0 {
		a.addHold(s, q)
		return
	}
	holds, runs := split(s.Numbers)
	if len(holds) > 0 {
		s.Numbers = join(holds, a.charge(runs, q.Now, q.Cost))
		return
	}
	s.Numbers = a.charge(runs, q.Now, q.Cost)
}

// charge adds an amount at now, as far as the total allows it.
func (a *amounts) charge(runs []int64, now, amount int64) []int64 {
	if sumBefore(runs, len(runs))+amount > maxTotal {
		runs = a.trim(runs, now)
		amount = min(amount, max(0, maxTotal-sumBefore(runs, len(runs))))
	}
	return a.insert(runs, now, amount, now)
}

// mustTrim reports whether an eighth of the runs, of which there are some, has left every window. Most requests
// need not look.
func (a *amounts) mustTrim(runs []int64, now int64) bool {
	n := len(runs) / runNumbers
	return n%trimEvery == 0 && runs[n/8*runNumbers+1]+a.longest <= now
}

// merge merges neighbours from the newest to the oldest.
func (a *amounts) merge(runs []int64, now int64) []int64 {
	to := len(runs) - runNumbers // of the run that is being merged into
	grain := a.grain(runs[to+1], now)
	for i := to - runNumbers; i >= 0; i -= runNumbers {
		if runs[to+1]-runs[i] <= grain && !a.divides(runs[i+1], runs[to+1], now) {
			runs[to] = min(runs[to], runs[i])
			continue
		}
		to -= runNumbers
		copy(runs[to:to+runNumbers], runs[i:i+runNumbers])
		grain = a.grain(runs[to+1], now)
	}
	return slices.Delete(runs, 0, to)
}

// divides reports whether a period of the calendar begins after a time and up to another: such runs stay
// apart, so that nothing is charged to a later period.
func (a *amounts) divides(after, to, now int64) bool {
	for _, r := range a.rules {
		if r.Calendar != nil {
			if start, _ := r.Calendar.Period(now); after < start && start <= to {
				return true
			}
		}
	}
	return false
}

// back returns a time that is shifted back by so many milliseconds, as far as it stays in the present
// period of each calendar.
func (a *amounts) back(at, by, now int64) int64 {
	to := at - by
	for _, r := range a.rules {
		if r.Calendar != nil {
			if start, _ := r.Calendar.Period(now); start <= at {
				to = max(to, start)
			}
		}
	}
	return to
}

// grain returns how long a run that counts at a time may be.
func (a *amounts) grain(at, now int64) int64 {
	shortest := a.longest
	for _, r := range a.rules {
		if at+r.Window > now {
			shortest = min(shortest, r.Window)
		}
	}
	return shortest / grains
}

func (a *amounts) room(s *State, now int64) int64 {
	a.advance(s, now)
	holds, runs := split(s.Numbers)
	_, held := openHolds(holds)
	room := Never
	for _, r := range a.rules {
		if r.Window > 0 {
			total, _ := used(runs, r.since(now))
			room = min(room, max(0, r.Limit-total-held))
		}
	}
	return room
}

func (a *amounts) remaining(detail []RuleRemaining, s *State, now, cost int64) []RuleRemaining {
	a.advance(s, now)
	holds, runs := split(s.Numbers)
	open, held := openHolds(holds)
	for i := range a.rules {
		r := &a.rules[i]
		if r.Window == 0 {
			detail = append(detail, RuleRemaining{Amount: max(0, r.Limit-open), Wait: a.waitOf(r, holds, runs, &Query{Now: now, Hold: 1}), Reset: max(0, lastEnd(r, holds, now)-now)})
			continue
		}
		total, oldest := used(runs, r.since(now))
		has := RuleRemaining{Amount: max(0, r.Limit-total-held), Wait: a.waitOf(r, holds, runs, &Query{Now: now, Cost: cost})}
		if r.Limit > 0 {
			if oldest < len(runs) {
				has.Reset = r.leaves(runs[len(runs)-2], now) - now
			}
			has.Reset = max(has.Reset, lastEnd(r, holds, now)-now)
		}
		detail = append(detail, has)
	}
	return detail
}

// lastEnd returns when the last open hold stops counting in r if none is settled, 0 if there is none.
func lastEnd(r *Rule, holds []int64, now int64) (last int64) {
	for i := 0; i < len(holds); i += holdNumbers {
		if holds[i+2] > 0 {
			last = max(last, holdLeaves(r, holds[i:], now))
		}
	}
	return last
}

func (a *amounts) ttl(s *State, now int64) (ttl int64) {
	a.advance(s, now)
	holds, runs := split(s.Numbers)
	if len(runs) > 0 {
		ttl = max(0, runs[len(runs)-2]+a.longest-now)
	}
	for i := 0; i < len(holds); i += holdNumbers {
		ttl = max(ttl, holds[i+3]+late(holds[i:])-now)
		if holds[i+2] > 0 {
			ttl = max(ttl, holds[i+1]+a.longest-now)
		}
	}
	return ttl
}

// CancelCharge removes an amount that was charged at a time up to now from a state of the log of amounts,
// and reports whether there was any. If the clock stepped back, which the next request corrects, it removes
// nothing. Of the runs that may contain the charge it takes the oldest first.
func (s *State) CancelCharge(now, at, amount int64) (freed bool) {
	holds, runs := split(s.Numbers)
	runs = runs[:len(runs)-len(runs)%runNumbers]
	if len(runs) == 0 || runs[len(runs)-2] > now {
		return false
	}
	kept, was, sum := runs[:0], int64(0), int64(0)
	for ; len(runs) > 0; runs = runs[runNumbers:] {
		run := [runNumbers]int64(runs)
		its := run[2] - was
		was = run[2]
		if run[0] <= at && at <= run[1] && amount > 0 {
			taken := min(amount, its)
			its, amount, freed = its-taken, amount-taken, true
		}
		if its > 0 {
			sum += its
			kept = append(kept, run[0], run[1], sum)
		}
	}
	s.Numbers = join(holds, kept)
	return freed
}
