package algorithms

import (
	"math"
	"slices"
)

// Never is the turn, and the wait, of what is never allowed.
const Never int64 = math.MaxInt64

// furthestTurn is how many milliseconds ahead a turn may lie,
// timestamplog.MaxWait: one further ahead shows that the clock has stepped back.
const furthestTurn = 3_600_000

// Stack counts for all rules of a policy at once: a request is counted in each
// or in none. It never changes, so that many goroutines may use it.
type Stack struct {
	counter Counter
	rules   []Rule
	size    int   // numbers of one key
	longest int64 // how far ahead a turn may lie, in milliseconds
}

// NewStack returns the stack of rules under a.Counter, which is not nil.
func NewStack(a *Algorithm, rules []Rule) *Stack {
	k := &Stack{counter: a.Counter, rules: rules, longest: furthestTurn}
	for _, r := range rules {
		k.size += a.Counter.Size(r)
		if queue, ok := a.Counter.(Queue); ok {
			k.longest = min(k.longest, queue.Longest(r))
		}
	}
	return k
}

// State is what is kept of one key: the zero value for one that never came. A
// State that is not Empty is to be kept for as long as Stack.Lasts says.
type State struct {
	// Numbers are those of each rule, one after the other.
	Numbers []int64
	// Turns is nil while no turn lies ahead.
	Turns *Turns
}

// Turns are what is kept of a key while turns that were reserved lie ahead. Its
// Numbers are then those at the newest turn.
type Turns struct {
	Newest int64 // when it is, in Unix milliseconds
	// ID is that of the request that reserved it; "" where it can no longer be
	// given back, since one after it was.
	ID string
	// Before and NewestBefore are what Numbers and Newest were before it was
	// reserved.
	Before       []int64
	NewestBefore int64
}

// Clone returns a State that shares nothing with s.
func (s *State) Clone() State {
	c := State{Numbers: slices.Clone(s.Numbers)}
	if s.Turns != nil {
		turns := *s.Turns
		turns.Before = slices.Clone(turns.Before)
		c.Turns = &turns
	}
	return c
}

// Question is what a request asks.
type Question struct {
	Now     int64 // Unix milliseconds
	Cost    int64
	MaxWait int64  // how many milliseconds the caller would wait for a turn
	Peek    bool   // answer, and count nothing
	ID      string // by which a turn may be given back; "" where it never is
}

// Verdict is the answer.
type Verdict struct {
	Allowed bool
	// Turn is when the request may be done if nobody else comes, also where it
	// was refused since that lies too far ahead; Never where it never may.
	Turn int64
	// RetryAt is when the same request, with the same MaxWait, would be allowed
	// if nobody else came: 0 where it was allowed, and Never.
	RetryAt int64
	// Rule is the index of the rule that makes it wait longest, -1 where it was
	// allowed. Where only turns make it wait, it is the last.
	Rule int
	// Changed says that the state is to be kept though the request may have been
	// refused: it was counted, or what lay too far ahead was moved back.
	Changed bool
}

// Remaining is what one rule has left after the answer, at the newest turn where
// turns lie ahead.
type Remaining struct {
	Left int64 // as Counter.Left says
	Wait int64 // milliseconds from now until this rule alone allows the same cost; Never
}

// Decide answers q and counts it in s where it is allowed and no peek. Where
// detail is not nil, it appends one Remaining for each rule to it.
func (k *Stack) Decide(s *State, q Question, detail *[]Remaining) Verdict {
	if q.Peek {
		looked := s.Clone()
		s = &looked
	}
	v := k.Ask(s, q)
	switch {
	case q.Peek:
		v.Changed = false
	case v.Allowed:
		k.Take(s, q, v.Turn)
		v.Changed = true
	}
	if detail != nil {
		*detail = k.Remaining(*detail, s, q.Now, q.Cost)
	}
	return v
}

// Ask answers q and counts nothing: it only brings s to now. A request that is
// allowed is allowed at any instant from its Turn on, so one about several keys
// asks each, and takes the latest of their turns in each.
func (k *Stack) Ask(s *State, q Question) Verdict {
	base, moved := k.settle(s, q.Now)
	v := Verdict{Turn: base, Rule: -1, Changed: moved}
	at := 0
	for i, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if q.Cost > r.largestCost() {
			v.Turn, v.RetryAt, v.Rule = Never, Never, i
			return v
		}
		if turn := base + k.counter.Wait(r, numbers, base, q.Cost); turn > v.Turn {
			v.Turn, v.Rule = turn, i
		}
	}
	if patience := min(q.MaxWait, k.longest); v.Turn-q.Now > patience {
		v.RetryAt = v.Turn - patience
		if v.Rule < 0 {
			v.Rule = len(k.rules) - 1
		}
		return v
	}
	v.Allowed, v.Rule = true, -1
	return v
}

// Take counts a request that Ask has just allowed, at turn, which is its Turn or
// later.
func (k *Stack) Take(s *State, q Question, turn int64) {
	if turn > q.Now {
		turns := &Turns{Newest: turn, ID: q.ID, Before: slices.Clone(s.Numbers)}
		if s.Turns != nil {
			turns.NewestBefore = s.Turns.Newest
		}
		s.Turns = turns
	}
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		k.counter.Settle(r, numbers, turn)
		k.counter.Take(r, numbers, turn, q.Cost)
	}
}

// Remaining appends what each rule has left of s to detail. It brings s to now.
func (k *Stack) Remaining(detail []Remaining, s *State, now, cost int64) []Remaining {
	base, _ := k.settle(s, now)
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		has := Remaining{Wait: Never}
		if r.Limit > 0 {
			has.Left = k.counter.Left(r, numbers, base)
		}
		if cost <= r.largestCost() {
			has.Wait = base - now + k.counter.Wait(r, numbers, base, cost)
		}
		detail = append(detail, has)
	}
	return detail
}

// Lasts returns for how many milliseconds from now s is to be kept if nobody
// comes; 0 where it is as good as none. It brings s to now.
func (k *Stack) Lasts(s *State, now int64) int64 {
	base, _ := k.settle(s, now)
	lasts := base - now
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if r.Limit > 0 {
			if its := k.counter.Lasts(r, numbers, base); its > 0 {
				lasts = max(lasts, base-now+its)
			}
		} else if slices.Max(numbers) > 0 { // a limit that comes back finds it
			lasts = max(lasts, base-now+r.Window)
		}
	}
	return lasts
}

// GiveBack undoes the newest reservation if it is that of id at the turn at, no
// other was made after it, and its time has not come. It reports whether it did.
func (s *State) GiveBack(now, at int64, id string) bool {
	t := s.Turns
	if t == nil || id == "" || t.ID != id || t.Newest != at || at <= now {
		return false
	}
	s.Numbers, s.Turns = t.Before, nil
	if t.NewestBefore > now {
		s.Turns = &Turns{Newest: t.NewestBefore}
	}
	return true
}

// settle brings s to now or, where turns lie ahead, to the newest, and returns
// which. moved says that something lay too far ahead and was moved back.
func (k *Stack) settle(s *State, now int64) (base int64, moved bool) {
	if len(s.Numbers) != k.size {
		*s = State{Numbers: make([]int64, k.size)}
	}
	base = now
	if s.Turns != nil {
		switch ahead := s.Turns.Newest - now; {
		case ahead <= 0:
			s.Turns = nil
		case ahead > furthestTurn:
			s.Turns, moved = nil, true
		default:
			base = s.Turns.Newest
		}
	}
	at := 0
	for _, r := range k.rules {
		numbers := k.numbers(s, &at, r)
		if r.Limit > 0 && k.counter.Settle(r, numbers, base) {
			moved = true
		}
	}
	return base, moved
}

// numbers returns those of r, which begin at *at, and moves *at behind them.
func (k *Stack) numbers(s *State, at *int, r Rule) []int64 {
	from := *at
	*at += k.counter.Size(r)
	return s.Numbers[from:*at:*at]
}

// largestCost returns the largest cost that r may ever allow.
func (r Rule) largestCost() int64 { return min(r.Limit, r.Capacity()) }
