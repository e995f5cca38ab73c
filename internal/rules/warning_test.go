package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
)

func TestWarningsNameRulesThatNeverRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		stack string
		want  []string // the whole messages
	}{
		"the default stack has none": {"1/s 20/m 200/h 800/d", nil},
		"no rules have none":         {"", nil},
		"a rule alone has none":      {"0/s", nil},
		"a shorter window that the longer one makes idle": {"20/s 10/m", []string{
			"20/1s can never refuse anyone: 10/1m already allows at most 10 in any second. Remove it, or set 9/1s or less."}},
		"a longer window that the shorter one makes idle": {"2/s 12/m 200/h 800/d 6000/7d", []string{
			"6000/7d can never refuse anyone: 800/1d already allows at most 5,600 in any 7 days. Remove it, or set 5599/7d or less."}},
		"a limit one less has none": {"800/d 5599/7d", nil},
		"equal windows": {"20/m 10/m", []string{
			"20/1m can never refuse anyone: 10/1m already allows at most 10 in any minute. Remove it, or set 9/1m or less."}},
		"a window that is no multiple of the other": {"10/7s 30/20s", []string{
			"30/20s can never refuse anyone: 10/7s already allows at most 30 in any 20 seconds. Remove it, or set 29/20s or less."}},
		"such a window with a limit one less": {"10/7s 29/20s", nil},
		"two rules that only together make a third idle": {"1/s 20/m 35/70s", []string{
			"35/70s can never refuse anyone: the other rules together already allow at most 30 in any 70 seconds. Remove it, or set 29/70s or less."}},
		"one rule that suffices together with others": {"1/s 20/m 41/70s", []string{
			"41/70s can never refuse anyone: with the other rules, 20/1m already allows at most 30 in any 70 seconds. Remove it, or set 29/70s or less."}},
		"together with a rule that refuses everything": {"0/s 10/m", []string{
			"10/1m can never refuse anyone: 0/1s already refuses everything. Remove one of them."}},
		"two rules that refuse everything": {"0/s 0/d", []string{
			"0/1d can never refuse anyone: 0/1s already refuses everything. Remove one of them."}},
		"nothing lower could be set": {"1/s 1/m", []string{
			"1/1s can never refuse anyone: 1/1m already allows at most 1 in any second. Remove it."}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range mustStack(t, c.stack).Warnings() {
				got = append(got, w.Message)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the warnings of %q are\n\t%s\nwant\n\t%s", c.stack, strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
			}
		})
	}
}

// TestWarningsNameExactlyTheRulesThatNeverRefuseAlone visits every state that any caller can
// cause in a small stack, and tries every cost there.
func TestWarningsNameExactlyTheRulesThatNeverRefuseAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stack := drawSmallStack(t)
		warnings := stack.Warnings()
		alone := refuseAlone(stack)
		for _, w := range warnings {
			if alone[w.Rule] {
				t.Fatalf("of %s, %s has a warning although it is at times the only rule that refuses", stack, w.Rule)
			}
		}
		binding := slices.DeleteFunc(slices.Clone(stack), func(r rules.Rule) bool {
			return slices.ContainsFunc(warnings, func(w rules.Warning) bool { return w.Rule == r })
		})
		alone = refuseAlone(binding)
		for _, r := range binding {
			if !alone[r] {
				t.Fatalf("of %s, %s has no warning and is never the only rule that refuses in %s", stack, r, binding)
			}
		}
	})
}

const smallWindow = 5 // milliseconds

func drawSmallStack(t *rapid.T) rules.Stack {
	stack, err := rules.NewStack(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rules.Rule {
		return rules.Rule{
			Limit:  rapid.IntRange(0, 5).Draw(t, "limit"),
			Window: time.Duration(rapid.IntRange(1, smallWindow).Draw(t, "window")) * time.Millisecond,
		}
	}), 1, 5).Draw(t, "stack")...)
	if err != nil {
		t.Fatal(err)
	}
	return stack
}

// recent has the cost that was allowed in each of the last milliseconds, newest first.
type recent [smallWindow]int

// refuseAlone returns the rules that, in some reachable state of the stack, are the only ones to
// refuse some request.
func refuseAlone(stack rules.Stack) map[rules.Rule]bool {
	alone := map[rules.Rule]bool{}
	seen := map[recent]bool{{}: true}
	visit := func(next recent, todo []recent) []recent {
		if seen[next] {
			return todo
		}
		seen[next] = true
		return append(todo, next)
	}
	for todo := []recent{{}}; len(todo) > 0; {
		state := todo[len(todo)-1]
		todo = todo[:len(todo)-1]

		later := recent{}
		copy(later[1:], state[:])
		todo = visit(later, todo)

		for cost := 1; cost <= 6; cost++ {
			switch refusing := refusingRules(stack, state, cost); len(refusing) {
			case 0:
				allowed := state
				allowed[0] += cost
				todo = visit(allowed, todo)
			case 1:
				alone[refusing[0]] = true
			}
		}
	}
	return alone
}

func refusingRules(stack rules.Stack, state recent, cost int) (refusing []rules.Rule) {
	for _, r := range stack {
		total := cost
		for _, n := range state[:r.Window/time.Millisecond] {
			total += n
		}
		if total > r.Limit {
			refusing = append(refusing, r)
		}
	}
	return refusing
}
