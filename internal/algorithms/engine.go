package algorithms

import (
	"math"
	"slices"
)

// Never is the time and the wait of what is never allowed.
const Never int64 = math.MaxInt64

// maxAhead is how many milliseconds ahead a reservation may be, timestamplog.MaxWait: one
// further ahead shows that the clock stepped back.
const maxAhead = 3_600_000

// Stack counts for all rules of a policy at once: a request is counted in each
// or in none. It never changes, so that many goroutines may use it.
type Stack struct {
	counter Counter
	rules   []Rule
	size    int   // numbers of one key
	longest int64 // how far ahead a reservation may be, in milliseconds
}

// NewStack returns the stack of rules under a.Counter, which is not nil.
func NewStack(a *Algorithm, rules []Rule) *Stack {
	k := &Stack{counter: a.Counter, rules: rules, longest: maxAhead}
	for _, r := range rules {
		k.size += a.Counter.Size(r)
		if queue, ok := a.Counter.(Queue); ok {
			k.longest = min(k.longest, queue.MaxDelay(r))
		}
	}
	return k
}

// State is what is stored for one key; the zero value is that of a key without
// requests. It must be stored for Stack.TTL.
type State struct {
	// Numbers are those of each rule, one after the other.
	Numbers []int64
	// Reservations is nil while no reservation is ahead.
	Reservations *Reservations
}

// Reservations is what is stored for a key while reservations are ahead. The State's
// Numbers are then those at the newest reservation.
type Reservations struct {
	Newest int64 // when it is, in Unix milliseconds
	// ID is that of the request that reserved it; "" where it can no longer be
	// cancelled, since one after it was.
	ID string
	// Before and NewestBefore are what Numbers and Newest were before it was
	// reserved.
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
	Peek    bool   // answer, and count nothing
	ID      string // by which a reservation may be cancelled; "" where it never is
}

// Result is the answer to a Query.
type Result struct {
	Allowed bool
	// AllowedAt is when the request is allowed without other requests before it, also if
	// it is refused because that is too far ahead; Never if it never is.
	AllowedAt int64
	// RetryAt is when the same request, with the same MaxWait, is allowed without other
	// requests before it: 0 if it was allowed now, Never if it never is.
	RetryAt int64
	// Rule is the index of the rule that makes it wait longest, -1 if it was allowed. If
	// only reservations make it wait, it is the last rule.
	Rule int
	// Changed reports whether the state must be stored, even if the request was refused:
	// the request was counted, or the state was shifted back.
	Changed bool
}

// RuleRemaining is what one rule has left after the answer, at the newest reservation
// if reservations are ahead.
type RuleRemaining struct {
	Amount int64 // as Counter.Remaining returns it
	Wait   int64 // milliseconds from now until this rule alone allows the same cost; Never
	Reset  int64 // milliseconds from now until nothing counts any more; 0 if nothing does
}

// Decide answers q, and counts it in s if it is allowed and no peek. If detail is not
// nil, it appends one RuleRemaining for each rule to it.
func (k *Stack) Decide(s *State, q Query, detail *[]RuleRemaining) Result {
	if q.Peek {
		looked := s.Clone()
		s = &looked
	}
	v := k.Ask(s, q)
	switch {
	case q.Peek:
		v.Changed = false
	case v.Allowed:
		k.Add(s, q, v.AllowedAt)
		v.Changed = true
	}
	if detail != nil {
		*detail = k.Remaining(*detail, s, q.Now, q.Cost)
	}
	return v
}

// Ask answers q and counts nothing: it only brings s to now. An allowed request is
// allowed at every instant from AllowedAt on, so a request about several keys asks for
// each, and counts in each at the latest AllowedAt.
func (k *Stack) Ask(s *State, q Query) Result {
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

// Add counts a request that Ask has just allowed, at an instant that is AllowedAt or
// later, or at now a cost of at most Room.
func (k *Stack) Add(s *State, q Query, reservation int64) {
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

// Room returns how much cost every rule has left at now, the smallest of what
// Counter.Remaining returns; 0 while reservations are ahead. Add may count as much. It
// brings s to now.
func (k *Stack) Room(s *State, now int64) int64 {
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

// Remaining appends what each rule has left of s to detail. It brings s to now.
func (k *Stack) Remaining(detail []RuleRemaining, s *State, now, cost int64) []RuleRemaining {
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

// TTL returns for how many milliseconds from now s must be stored without further
// requests, 0 if it is equivalent to the zero value. It brings s to now.
func (k *Stack) TTL(s *State, now int64) int64 {
	base, _ := k.advance(s, now)
	ttl := base - now
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if r.Limit > 0 {
			if its := k.counter.TTL(r, numbers, base); its > 0 {
				ttl = max(ttl, base-now+its)
			}
		} else if slices.Max(numbers) > 0 { // a limit that comes back finds it
			ttl = max(ttl, base-now+r.Window)
		}
	}
	return ttl
}

// Cancel undoes the newest reservation if it is that of id at the reservation at, no
// other was made after it, and its time has not come. It reports whether it did.
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

// advance brings s to base: now or, if reservations are ahead, the newest of them. It
// reports whether something was too far ahead and was shifted back.
func (k *Stack) advance(s *State, now int64) (base int64, shifted bool) {
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

// numbers returns those of r, which begin at *at, and moves *at behind them.
func (k *Stack) numbers(s *State, at *int, r Rule) []int64 {
	from := *at
	*at += k.counter.Size(r)
	return s.Numbers[from:*at:*at]
}

// largestCost returns the largest cost that r may ever allow.
func (r Rule) largestCost() int64 { return min(r.Limit, r.Capacity()) }
