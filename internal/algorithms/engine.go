package algorithms

import (
	"math"
	"slices"
)

// Never is the time and the wait of a request that is never allowed.
const Never int64 = math.MaxInt64

// maxAhead is how many milliseconds ahead a reservation may be, like timestamplog.MaxWait. A
// reservation that is further ahead shows that the clock stepped back.
const maxAhead = 3_600_000

// Stack counts under all rules of a policy: a request is counted under each or none. It never
// changes and is safe for concurrent use.
type Stack struct {
	counters *counters // nil for the logs of amounts and of points
	amounts  *amounts
}

// NewStack returns the stack of rules under a, which is not a log.
func NewStack(a *Algorithm, rules []Rule) *Stack {
	if a.Amounts {
		return &Stack{amounts: newAmounts(rules, a == &pointLog)}
	}
	return &Stack{counters: newCounters(a, rules)}
}

// counters counts for the algorithms that keep a few numbers for each rule.
type counters struct {
	counter Counter
	rules   []Rule
	size    int   // total of the numbers for one key
	longest int64 // how far ahead a reservation may be, in milliseconds
}

func newCounters(a *Algorithm, rules []Rule) *counters {
	k := &counters{counter: a.Counter, rules: rules, longest: maxAhead}
	for _, r := range rules {
		k.size += a.Counter.Size(r)
		if queue, ok := a.Counter.(Queue); ok {
			k.longest = min(k.longest, queue.MaxDelay(r))
		}
	}
	return k
}

// State is what is stored for one key. The zero value is that of a key without requests. It must
// be stored for at least Stack.TTL.
type State struct {
	// Numbers are the numbers of all rules, in the order of the rules, or the runs of amounts.
	Numbers []int64
	// Reservations is nil while no reservation is ahead.
	Reservations *Reservations
}

// Reservations is what is stored for a key while reservations are ahead. The Numbers of the State
// are then those at the time of the newest reservation.
type Reservations struct {
	Newest int64 // the time of the newest reservation, in Unix milliseconds
	// ID is the ID of the request that made it. It is "" if the reservation can no longer be
	// cancelled, because a later one was made and cancelled.
	ID string
	// Before and NewestBefore are the Numbers and Newest before the reservation was made.
	Before       []int64
	NewestBefore int64
}

// Clone returns a State that shares nothing with s.
func (s *State) Clone() State {
	c := State{Numbers: slices.Clone(s.Numbers)}
	if s.Reservations != nil {
		reservations := *s.Reservations
		reservations.Before = slices.Clone(reservations.Before)
		c.Reservations = &reservations
	}
	return c
}

// Query is one request.
type Query struct {
	Now     int64 // Unix milliseconds
	Cost    int64
	MaxWait int64  // how many milliseconds the caller would wait for a reservation
	Peek    bool   // answer without counting
	ID      string // the ID by which a reservation can be cancelled; "" if it never is
	// Tag is what a request under the log of points is charged for, and the HoldTag of a request with
	// Hold; ignored by the others.
	Tag Tag
	// Hold makes a request under the log of amounts hold its cost for so many milliseconds instead of
	// charging it; 0 charges it. Only requests that hold need a place under a rule with the window 0.
	Hold int64
	// Source is a number of the caller's for who holds, which Holds returns.
	Source int64
}

// Result is the answer to a Query.
type Result struct {
	Allowed bool
	// AllowedAt is when the request would be allowed if nobody else came. It is also set if the
	// request is refused because that is too far ahead. Never if it is never allowed.
	AllowedAt int64
	// RetryAt is when the same request, with the same MaxWait, would be allowed if nobody else
	// came: 0 if it was allowed now, Never if it is never allowed.
	RetryAt int64
	// Rule is the index of the rule that makes the request wait longest, -1 if it was allowed. If
	// only reservations make it wait, it is the last rule.
	Rule int
	// Changed reports whether the state must be stored, even if the request was refused:
	// the request was counted, holds that have expired were ended, or the state was shifted back.
	Changed bool
	// TooManyHolds reports that the request waits longest because the key has MaxHolds open holds.
	TooManyHolds bool
}

// RuleRemaining is the state of one rule after the decision, at the time of the newest
// reservation if reservations are ahead.
type RuleRemaining struct {
	Amount int64 // the result of Counter.Remaining
	Wait   int64 // milliseconds from now until this rule alone allows the same cost, or Never
	Reset  int64 // milliseconds from now until nothing counts any more; 0 if nothing does
}

// Decide answers q, and counts it in s if it is allowed and not a peek. If detail is not nil, it
// appends one RuleRemaining for each rule to it.
func (k *Stack) Decide(s *State, q Query, detail *[]RuleRemaining) Result {
	if q.Peek {
		looked := s.Clone()
		s = &looked
	}
	v := k.Ask(s, &q)
	switch {
	case q.Peek:
		v.Changed = false
	case v.Allowed:
		k.Add(s, &q, v.AllowedAt)
		v.Changed = true
	}
	if detail != nil {
		*detail = k.Remaining(*detail, s, q.Now, q.Cost)
	}
	return v
}

// Ask answers q without counting it; it only brings s to now. An allowed request is allowed at
// every time from AllowedAt on. So a request about several keys calls Ask for each key, and
// counts in each at the latest AllowedAt.
func (k *Stack) Ask(s *State, q *Query) Result {
	if k.amounts != nil {
		return k.amounts.ask(s, q)
	}
	return k.counters.ask(s, q)
}

// AsksInPlace reports whether Ask leaves the Numbers that it is given as they were, unless the Result is
// Changed. So Ask and Add need no copy of a State.
func (k *Stack) AsksInPlace() bool { return k.amounts != nil }

// Add counts a request that Ask has just allowed, at AllowedAt or later, or counts at now a cost
// of at most Room.
func (k *Stack) Add(s *State, q *Query, reservation int64) {
	if k.amounts != nil {
		k.amounts.add(s, q)
		return
	}
	k.counters.add(s, q, reservation)
}

// Room returns how much cost every rule allows at now: the smallest Counter.Remaining, and 0
// while reservations are ahead. Add may count that much. Room brings s to now.
func (k *Stack) Room(s *State, now int64) int64 {
	if k.amounts != nil {
		return k.amounts.room(s, now)
	}
	return k.counters.room(s, now)
}

// Remaining appends the state of each rule to detail. It brings s to now.
func (k *Stack) Remaining(detail []RuleRemaining, s *State, now, cost int64) []RuleRemaining {
	if k.amounts != nil {
		return k.amounts.remaining(detail, s, now, cost)
	}
	return k.counters.remaining(detail, s, now, cost)
}

// TTL returns how many milliseconds from now s must be stored if there are no further requests, 0
// if it is equivalent to the zero value. It brings s to now.
func (k *Stack) TTL(s *State, now int64) int64 {
	if k.amounts != nil {
		return k.amounts.ttl(s, now)
	}
	return k.counters.ttl(s, now)
}

func (k *counters) ask(s *State, q *Query) Result {
	base, shifted := k.advance(s, q.Now)
	v := Result{AllowedAt: base, Rule: -1, Changed: shifted}
	at := 0
	for i, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if q.Cost > r.largestCost() {
			v.AllowedAt, v.RetryAt, v.Rule = Never, Never, i
			return v
		}
		if reservation := base + k.counter.Wait(r, numbers, base, q.Cost); reservation > v.AllowedAt {
			v.AllowedAt, v.Rule = reservation, i
		}
	}
	if maxWait := min(q.MaxWait, k.longest); v.AllowedAt-q.Now > maxWait {
		v.RetryAt = v.AllowedAt - maxWait
		if v.Rule < 0 {
			v.Rule = len(k.rules) - 1
		}
		return v
	}
	v.Allowed, v.Rule = true, -1
	return v
}

func (k *counters) add(s *State, q *Query, reservation int64) {
	if reservation > q.Now {
		reservations := &Reservations{Newest: reservation, ID: q.ID, Before: slices.Clone(s.Numbers)}
		if s.Reservations != nil {
			reservations.NewestBefore = s.Reservations.Newest
		}
		s.Reservations = reservations
	}
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		k.counter.Advance(r, numbers, reservation)
		k.counter.Add(r, numbers, reservation, q.Cost)
	}
}

func (k *counters) room(s *State, now int64) int64 {
	base, _ := k.advance(s, now)
	if base > now {
		return 0
	}
	room, at := Never, 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if r.Limit == 0 {
			return 0
		}
		room = min(room, k.counter.Remaining(r, numbers, base))
	}
	return room
}

func (k *counters) remaining(detail []RuleRemaining, s *State, now, cost int64) []RuleRemaining {
	base, _ := k.advance(s, now)
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		has := RuleRemaining{Wait: Never}
		if r.Limit > 0 {
			has.Amount = k.counter.Remaining(r, numbers, base)
			if ttl := k.counter.TTL(r, numbers, base); ttl > 0 {
				has.Reset = base - now + ttl
			}
		}
		if cost <= r.largestCost() {
			has.Wait = base - now + k.counter.Wait(r, numbers, base, cost)
		}
		detail = append(detail, has)
	}
	return detail
}

func (k *counters) ttl(s *State, now int64) int64 {
	base, _ := k.advance(s, now)
	ttl := base - now
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if r.Limit > 0 {
			if its := k.counter.TTL(r, numbers, base); its > 0 {
				ttl = max(ttl, base-now+its)
			}
		} else if slices.Max(numbers) > 0 { // so that a later limit above 0 finds the state
			ttl = max(ttl, base-now+r.Window)
		}
	}
	return ttl
}

// Cancel undoes the newest reservation and returns true, if it was made by id for the time at, no
// other was made after it, and at is after now.
func (s *State) Cancel(now, at int64, id string) bool {
	t := s.Reservations
	if t == nil || id == "" || t.ID != id || t.Newest != at || at <= now {
		return false
	}
	s.Numbers, s.Reservations = t.Before, nil
	if t.NewestBefore > now {
		s.Reservations = &Reservations{Newest: t.NewestBefore}
	}
	return true
}

// advance brings s to base, which is now or, if reservations are ahead, the time of the newest
// one. It reports whether something was too far ahead and was shifted back.
func (k *counters) advance(s *State, now int64) (base int64, shifted bool) {
	if len(s.Numbers) != k.size {
		*s = State{Numbers: make([]int64, k.size)}
	}
	base = now
	if s.Reservations != nil {
		switch ahead := s.Reservations.Newest - now; {
		case ahead <= 0:
			s.Reservations = nil
		case ahead > maxAhead:
			s.Reservations, shifted = nil, true
		default:
			base = s.Reservations.Newest
		}
	}
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if r.Limit > 0 && k.counter.Advance(r, numbers, base) {
			shifted = true
		}
	}
	return base, shifted
}

// numbers returns the numbers of r, which begin at index *at, and increases *at to the index
// after them.
func (k *counters) numbers(s *State, at *int, r Rule) []int64 {
	from := *at
	*at += k.counter.Size(r)
	return s.Numbers[from:*at:*at]
}

// largestCost returns the largest cost that r may ever allow.
func (r Rule) largestCost() int64 { return min(r.Limit, r.Capacity()) }
