package rules

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// MaxRules is the largest number of rules in a stack.
const MaxRules = 16

// Stack is a list of rules that must all hold, sorted by window and then by limit, both
// ascending, so that those of what is concurrent come first. The empty stack allows everything.
type Stack []Rule

// ParseStack parses the rules of a stack, in any order. The error is an *Error.
func ParseStack(texts []string) (Stack, error) {
	stack := make(Stack, 0, len(texts))
	for _, text := range texts {
		rule, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		stack = append(stack, rule)
	}
	return NewStack(stack.fillUnit()...)
}

// fillUnit sets the unit that one rule names in those that name none.
func (s Stack) fillUnit() Stack {
	at := slices.IndexFunc(s, func(r Rule) bool { return r.Unit != "" })
	for i := range s {
		if at >= 0 && s[i].Unit == "" && !s[i].IsConcurrent() && !s[i].Points && s[i].Distinct == "" {
			s[i].Unit = s[at].Unit
		}
	}
	return s
}

// NewStack sorts and validates rules, which must all count the same: requests, or the different
// values of one name. It removes duplicates.
func NewStack(rules ...Rule) (Stack, error) {
	stack := Stack(slices.Clone(rules))
	for _, r := range stack {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		if r.Distinct != stack[0].Distinct || r.Points != stack[0].Points {
			return nil, refuse(r.String(), "counts something else than %s; the rules of one policy all count requests, all the different values of one name, or all points", stack[0])
		}
		if other := stack.otherUnit(r); other != nil {
			return nil, refuse(r.String(), "counts something else than %s; the rules of one policy have one unit", *other)
		}
	}
	slices.SortFunc(stack, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Calendar, b.Calendar))
	})
	stack = slices.Compact(stack)
	if len(stack) > MaxRules {
		return nil, refuse(stack.String(), "is one of %d; a stack holds at most %d", len(stack), MaxRules)
	}
	return stack, nil
}

// otherUnit returns a rule that counts amounts of another unit than r, nil for none.
func (s Stack) otherUnit(r Rule) *Rule {
	for i := range s {
		if !s[i].IsConcurrent() && !r.IsConcurrent() && s[i].Unit != r.Unit {
			return &s[i]
		}
	}
	return nil
}

// Strings returns the canonical form of each rule.
func (s Stack) Strings() []string {
	texts := make([]string, len(s))
	for i, r := range s {
		texts[i] = r.String()
	}
	return texts
}

// String returns the rules with spaces between.
func (s Stack) String() string { return strings.Join(s.Strings(), " ") }

// Equal reports whether both stacks have the same rules.
func (s Stack) Equal(t Stack) bool { return slices.Equal(s, t) }

// Distinct returns the name of the value whose different values the rules count, "" if
// they count requests.
func (s Stack) Distinct() string {
	if len(s) == 0 {
		return ""
	}
	return s[0].Distinct
}

// CountsPoints reports whether the rules limit points of evidence.
func (s Stack) CountsPoints() bool { return len(s) > 0 && s[0].Points }

// LargestLimit returns the largest limit, 0 for an empty stack: a log never needs more entries.
func (s Stack) LargestLimit() int {
	most := 0
	for _, r := range s {
		most = max(most, r.Limit)
	}
	return most
}

// LongestWindow returns the longest window, 0 for an empty stack: a log never needs older
// entries.
func (s Stack) LongestWindow() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].Window
}

// LargestCost returns the largest cost that the stack can ever allow: its smallest limit that is
// not zero, or math.MaxInt if there is none. Distinct rules and those of what is concurrent have no
// influence, because a request has one value and one place whatever its cost.
func (s Stack) LargestCost() int {
	most := math.MaxInt
	for _, r := range s {
		if r.Limit > 0 && r.Distinct == "" && !r.IsConcurrent() {
			most = min(most, r.Limit)
		}
	}
	return most
}
