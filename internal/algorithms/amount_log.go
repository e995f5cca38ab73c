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
		"Never more than N in any window; exact for some 1,000 times a key, and beyond that a wait may be too long by 1/256 of its window.",
	Exact:   true,
	Amounts: true,
	Lua:     amountLogLua,
}

// MaxAmount is the largest limit and the largest cost under the log of amounts. Nine times as much
// is still below 2^53.
const MaxAmount = 1_000_000_000_000_000

// maxTotal bounds the total of the amounts of one key, so that Lua represents it exactly. Only
// costs that are charged beyond a limit can reach it.
const maxTotal = 1<<53 - 1

// amounts counts for the log of amounts. Numbers holds runs, the oldest first, each of
// three numbers: the time of the earliest request in the run, the time at which the run counts,
// which is that of the latest, and the amount. So a run leaves a window no earlier than any of
// its requests would. Runs are merged only when there are more than most of them, and only if the
// whole run then spans at most a grain: 1/256 of the shortest window that the run is in.
//
// Two neighbours that could not be merged span more than a grain together, so at most 514 runs
// of a window remain, and a pass over all of them is needed once in some 500 new runs.
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
)

func newAmounts(rules []Rule, tagged bool) *amounts {
	a := &amounts{rules: rules, most: 512 + 2*(grains+1)*len(rules), tagged: tagged}
	for _, r := range rules {
		a.longest = max(a.longest, r.Window)
	}
	return a
}

// advance drops the runs that have left every window. Runs that are ahead of now show that the
// clock stepped back: then all are shifted back until none is.
func (a *amounts) advance(s *State, now int64) (shifted bool) {
	runs := s.Numbers[:len(s.Numbers)-len(s.Numbers)%runNumbers]
	if last := len(runs) - runNumbers; last >= 0 && runs[last+1] > now {
		by := runs[last+1] - now
		for i := 0; i < len(runs); i += runNumbers {
			runs[i+1] -= by
			if !a.tagged {
				runs[i] -= by
			}
		}
		shifted = true
	}
	gone := 0
	for gone < len(runs) && runs[gone+1]+a.longest <= now {
		gone += runNumbers
	}
	s.Numbers = runs[:copy(runs, runs[gone:])]
	return shifted
}

// used returns the total of the runs that are younger than window at now, and the index of the
// oldest of them.
func used(runs []int64, window, now int64) (total int64, oldest int) {
	oldest = len(runs)
	for oldest > 0 && runs[oldest-runNumbers+1]+window > now {
		oldest -= runNumbers
		total += runs[oldest+2]
	}
	return total, oldest
}

// wait returns how long r refuses a cost of at most its limit, in milliseconds.
func wait(r Rule, runs []int64, now, cost int64) int64 {
	total, i := used(runs, r.Window, now)
	free := now
	for ; total+cost > r.Limit; i += runNumbers {
		total -= runs[i+2]
		free = runs[i+1] + r.Window
	}
	return free - now
}

func (a *amounts) ask(s *State, q Query) Result {
	v := Result{AllowedAt: q.Now, Rule: -1, Changed: a.advance(s, q.Now)}
	if a.tagged && (q.Tag.Forgives() || has(s.Numbers, q.Tag)) {
		v.Allowed = true
		return v
	}
	for i, r := range a.rules {
		if q.Cost > r.Limit {
			v.AllowedAt, v.RetryAt, v.Rule = Never, Never, i
			return v
		}
		if at := q.Now + wait(r, s.Numbers, q.Now, q.Cost); at > v.AllowedAt {
			v.AllowedAt, v.RetryAt, v.Rule = at, at, i
		}
	}
	v.Allowed = v.Rule < 0
	return v
}

func (a *amounts) add(s *State, q Query) {
	a.advance(s, q.Now)
	if a.tagged {
		a.addTagged(s, q)
		return
	}
	total, _ := used(s.Numbers, a.longest, q.Now)
	cost := min(q.Cost, maxTotal-total)
	if last := len(s.Numbers) - runNumbers; last >= 0 && s.Numbers[last+1] == q.Now {
		s.Numbers[last+2] += cost
		return
	}
	if s.Numbers = append(s.Numbers, q.Now, q.Now, cost); len(s.Numbers) > a.most*runNumbers {
		s.Numbers = a.merge(s.Numbers, q.Now)
	}
}

// merge merges neighbours from the newest to the oldest.
func (a *amounts) merge(runs []int64, now int64) []int64 {
	to := len(runs) - runNumbers // of the run that is being merged into
	grain := a.grain(runs[to+1], now)
	for i := to - runNumbers; i >= 0; i -= runNumbers {
		if runs[to+1]-runs[i] <= grain {
			runs[to], runs[to+2] = runs[i], runs[to+2]+runs[i+2]
			continue
		}
		to -= runNumbers
		copy(runs[to:to+runNumbers], runs[i:i+runNumbers])
		grain = a.grain(runs[to+1], now)
	}
	return slices.Delete(runs, 0, to)
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
	room := Never
	for _, r := range a.rules {
		total, _ := used(s.Numbers, r.Window, now)
		room = min(room, max(0, r.Limit-total))
	}
	return room
}

func (a *amounts) remaining(detail []RuleRemaining, s *State, now, cost int64) []RuleRemaining {
	a.advance(s, now)
	for _, r := range a.rules {
		total, oldest := used(s.Numbers, r.Window, now)
		has := RuleRemaining{Amount: max(0, r.Limit-total), Wait: Never}
		if oldest < len(s.Numbers) && r.Limit > 0 {
			has.Reset = s.Numbers[len(s.Numbers)-2] + r.Window - now
		}
		if cost <= r.Limit {
			has.Wait = wait(r, s.Numbers, now, cost)
		}
		detail = append(detail, has)
	}
	return detail
}

func (a *amounts) ttl(s *State, now int64) int64 {
	if a.advance(s, now); len(s.Numbers) == 0 {
		return 0
	}
	return s.Numbers[len(s.Numbers)-2] + a.longest - now
}
