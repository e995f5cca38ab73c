package rules

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"
)

// FullSpeed iterates over the times, relative to the first request, at which a caller is allowed
// who always sends a request as early as the stack allows. Each time is the earliest that the
// rules allow after the times before it. No caller ever gets more requests into a window than
// this caller into the first one. Times are equal within a burst. The iteration is empty if a
// limit is 0 or beyond MaxLimit. Otherwise it is endless, but stops before a time.Duration
// overflows. It ignores the rules of the calendar.
func (s Stack) FullSpeed() iter.Seq[time.Duration] {
	s, _ = s.sliding()
	return func(yield func(time.Duration) bool) {
		if s.refusesAll() || s.LargestLimit() > MaxLimit {
			return
		}
		at := newTimeline(s)
		for yield(at.now) {
			if !at.next() {
				return
			}
		}
	}
}

func (s Stack) refusesAll() bool {
	for _, r := range s {
		if r.Limit == 0 {
			return true
		}
	}
	return false
}

// timeline computes the times of FullSpeed.
type timeline struct {
	now   time.Duration
	rules []boundary
	// times is a ring of the latest times, as many as the largest limit.
	times []time.Duration
	head  int // where the next time goes
}

// boundary is a rule and the index in the ring of the request that must leave its window. The
// index is negative while there are fewer requests than the limit.
type boundary struct {
	window time.Duration
	at     int
}

func newTimeline(s Stack) *timeline {
	t := &timeline{times: make([]time.Duration, max(1, s.LargestLimit()))}
	for _, r := range s {
		t.rules = append(t.rules, boundary{r.Window, -r.Limit})
	}
	return t
}

// next adds a request at now and advances now to the time of the next one. It returns false if
// that time would overflow.
func (t *timeline) next() bool {
	if t.now > math.MaxInt64-MaxWindow {
		return false
	}
	t.times[t.head] = t.now
	t.head = (t.head + 1) % len(t.times)
	for i := range t.rules {
		r := &t.rules[i]
		if r.at++; r.at == len(t.times) {
			r.at = 0
		}
		if r.at >= 0 {
			t.now = max(t.now, t.times[r.at]+r.window)
		}
	}
	return true
}

// busiest returns how many requests the busiest window of length w can hold.
// It stops counting at enough. For amounts it only considers each rule by itself.
func (s Stack) busiest(w time.Duration, enough int) int {
	if s.LargestLimit() > MaxLimit {
		return int(min(int64(enough), slices.MinFunc(s, func(a, b Rule) int { return cmp.Compare(a.most(w), b.most(w)) }).most(w)))
	}
	n := 0
	for at := range s.FullSpeed() {
		if at >= w || n == enough {
			break
		}
		n++
	}
	return n
}

// UsedUp says how soon a rule's limit can be used up.
type UsedUp struct {
	Rule  Rule
	After time.Duration // time between the first and the last request of the limit; 0 for a burst
}

// UsedUp returns how soon the limit is used up at full speed, for each rule that can ever refuse
// a request. It is empty if a limit is 0, for distinct rules and for amounts.
func (s Stack) UsedUp() []UsedUp {
	if s.refusesAll() || s.LargestLimit() > MaxLimit || s.Distinct() != "" {
		return nil
	}
	s, _ = s.sliding()
	binding, _ := s.split()
	if len(binding) == 0 {
		return nil
	}
	all := make([]UsedUp, len(binding))
	n := 0
	for at := range binding.FullSpeed() {
		if n == binding.LargestLimit() {
			break
		}
		n++
		for i, r := range binding {
			if r.Limit == n {
				all[i] = UsedUp{r, at}
			}
		}
	}
	return all
}
