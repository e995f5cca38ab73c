package logtest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Answered is a request of that cost and its answer.
type Answered struct {
	Cost int
	timestamplog.Result
}

// CheckHistory checks all the answers that one log gave under one stack, in any
// order, from however many callers and nodes: their times show whether a
// limit was exceeded and whether each refusal was needed. It also fails where
// no request was allowed, or none refused, since the limits were not tested then.
func CheckHistory(t testing.TB, stack rules.Stack, all []Answered) {
	t.Helper()
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Answered) int { return cmp.Compare(a.Now, b.Now) })
	h := newHistory(all)
	for _, a := range all {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		h.checkWindows(t, a, stack)
	}
	if total := h.upTo[len(all)]; total == 0 || h.refused == 0 {
		t.Errorf("a cost of %d was allowed and %d requests were refused, want more than 0 of both", total, h.refused)
	}
}

// history is all answers in order of time.
type history struct {
	all     []Answered
	upTo    []int // the cost allowed among the first so many
	refused int
}

func newHistory(all []Answered) *history {
	h := &history{all: all, upTo: make([]int, len(all)+1)}
	for i, a := range all {
		h.upTo[i+1] = h.upTo[i]
		if a.Allowed {
			h.upTo[i+1] += a.Cost
		} else {
			h.refused++
		}
	}
	return h
}

// checkWindows checks the windows that end at a's time.
func (h *history) checkWindows(t testing.TB, a Answered, stack rules.Stack) {
	t.Helper()
	for i, rule := range stack {
		used := h.allowed(a.Now-rule.WindowMS(), a.Now)
		if used > rule.Limit {
			t.Fatalf("a cost of %d was allowed in the %s before %d, want at most %d", used, rules.FormatWindow(rule.Window), a.Now, rule.Limit)
		}
		// Of those in the same millisecond some may have come later, so this
		// can only excuse a refusal.
		if !a.Allowed && a.Rule == i && used+a.Cost <= rule.Limit {
			t.Fatalf("a cost of %d was refused at %d by %s although only %d was used", a.Cost, a.Now, rule, used)
		}
	}
	if !a.Allowed && a.RetryAt != a.Boundary+stack[a.Rule].WindowMS() {
		t.Fatalf("got %+v, want RetryAt to be the boundary plus the window", a)
	}
}

// allowed returns the cost allowed after one instant up to another.
func (h *history) allowed(after, until int64) int {
	return h.upTo[h.before(until+1)] - h.upTo[h.before(after+1)]
}

// before returns how many answers came before an instant.
func (h *history) before(at int64) int {
	n, _ := slices.BinarySearchFunc(h.all, at, func(a Answered, at int64) int { return cmp.Compare(a.Now, at) })
	return n
}

// MaxAllowed returns the largest cost that any window of that length allowed.
// It is for logs that were lost in between, where a limit may be exceeded.
func MaxAllowed(all []Answered, window int64) int {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Answered) int { return cmp.Compare(a.Now, b.Now) })
	h, most := newHistory(all), 0
	for _, a := range all {
		most = max(most, h.allowed(a.Now-window, a.Now))
	}
	return most
}
