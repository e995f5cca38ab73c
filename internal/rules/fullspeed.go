package rules

import (
	"iter"
	"math"
	"time"
)

// FullSpeed ranges over the times, from the first request on, at which a caller
// who always asks as early as the stack allows is let through. Nobody ever gets
// more requests into a window than this caller into his first: each time is the
// earliest that the rules leave, given that the times before it are. Times are
// equal within a burst. The range ends at once where a limit is 0, and never
// otherwise; it stops before a time.Duration overflows.
func (s Stack) FullSpeed() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		if s.refusesAll() {
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

// timeline walks along the times of FullSpeed.
type timeline struct {
	now   time.Duration
	rules []boundary
	// times is a ring of the latest times, as many as the largest limit.
	times []time.Duration
	head  int // where the next time goes
}

// boundary is a rule and the place in the ring of the request that it waits
// for, negative while there have been fewer than its limit.
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

// next notes a request at now and moves now to when the next one is allowed.
// It returns false if that time would overflow.
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
// It stops counting at enough.
func (s Stack) busiest(w time.Duration, enough int) int {
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
	After time.Duration // of the limit's last request behind its first; 0 for a burst
}

// UsedUp returns, for each rule that can ever refuse anyone, how soon its limit
// is used up at full speed. It is empty where a limit is 0 and for distinct rules.
func (s Stack) UsedUp() []UsedUp {
	if s.refusesAll() || s.Distinct() != "" {
		return nil
	}
	binding, _ := s.split()
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
