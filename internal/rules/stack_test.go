package rules_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func TestStackIsSortedWithoutDuplicates(t *testing.T) {
	got := mustStack(t, "800/day 1/s 20/m 20/60s 5/m 200/h").String()
	if want := "1/1s 5/1m 20/1m 200/1h 800/1d"; got != want {
		t.Errorf("the stack is %q, want %q", got, want)
	}
}

func TestStackHasAtMostSixteenRules(t *testing.T) {
	var texts []string
	for i := range rules.MaxRules + 1 {
		texts = append(texts, fmt.Sprintf("%d/%ds", i+1, i+1))
	}
	if _, err := rules.ParseStack(texts[:rules.MaxRules]); err != nil {
		t.Errorf("a stack of %d is refused: %v", rules.MaxRules, err)
	}
	if _, err := rules.ParseStack(texts); err == nil {
		t.Errorf("a stack of %d is accepted", len(texts))
	}
}

func TestParseStackRejectsABadRule(t *testing.T) {
	if _, err := rules.ParseStack([]string{"1/s", "nonsense"}); err == nil {
		t.Error("ParseStack accepts nonsense")
	}
	if _, err := rules.NewStack(rules.Rule{Limit: -1, Window: time.Second}); err == nil {
		t.Error("NewStack accepts a negative limit")
	}
}

func TestStackReturnsItsLargestLimitCostAndWindow(t *testing.T) {
	for text, want := range map[string]struct {
		entries, cost int
		window        time.Duration
	}{
		"":                   {0, math.MaxInt, 0},
		"0/d":                {0, math.MaxInt, 24 * time.Hour},
		"1/s 20/m 200/h":     {200, 1, time.Hour},
		"900/s 20/m 0/h 7/h": {900, 7, time.Hour},
	} {
		s := mustStack(t, text)
		if s.LargestLimit() != want.entries || s.LargestCost() != want.cost || s.LongestWindow() != want.window {
			t.Errorf("%q: largest limit %d, largest cost %d, longest window %v; want %+v",
				text, s.LargestLimit(), s.LargestCost(), s.LongestWindow(), want)
		}
	}
}

func TestStackCountsRequestsOrTheValuesOfOneName(t *testing.T) {
	for _, texts := range [][]string{{"1/s", "15/d distinct path"}, {"15/d distinct path", "10/d distinct account"}} {
		if _, err := rules.ParseStack(texts); err == nil || !strings.Contains(err.Error(), "counts something else than") {
			t.Errorf("ParseStack(%q): got %v, want an error", texts, err)
		}
	}
	stack, err := rules.ParseStack([]string{"15/d distinct path", "8/h distinct path", "15/day distinct path"})
	if err != nil || stack.Distinct() != "path" || len(stack) != 2 || stack.LargestCost() != math.MaxInt {
		t.Errorf("ParseStack of distinct rules: got %v, %v", stack, err)
	}
	if again, err := rules.ParseStack(rules.SplitRules(stack.String() + ", 20/d distinct path")); err != nil || len(again) != 3 {
		t.Errorf("ParseStack of the canonical text: got %v, %v", again, err)
	}
	if want := "At most 8 different values of path in any hour and 15 in any day. A value that comes again counts once."; stack.Describe() != want {
		t.Errorf("got  %s\nwant %s", stack.Describe(), want)
	}
}

func TestScopeNeedsAnOutcomeAndAValidName(t *testing.T) {
	valid := func() *rules.Policy {
		p := &rules.Policy{Name: "p", Match: []keys.Pattern{{}}, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog, Outcome: "login_failed", Scope: "login", Rules: mustStack(t, "20/d")}
		p.Match[0], _ = keys.Parser{}.Pattern("*")
		return p
	}
	for name, change := range map[string]func(*rules.Policy){
		"":                 func(*rules.Policy) {},
		"no outcome":       func(p *rules.Policy) { p.Outcome = "" },
		"an invalid scope": func(p *rules.Policy) { p.Scope = "Log in" },
	} {
		p := valid()
		change(p)
		var wrong *rules.FieldError
		if errors.As(p.Validate(), &wrong); (wrong == nil) != (name == "") || wrong != nil && wrong.Field != "scope" {
			t.Errorf("Validate with %s: got %v", name, wrong)
		}
	}
	want := "Counts reports of login_failed. Refuses the checks of the key in the scope login while one more report would not fit, in addition to the key's own policy."
	if got := valid().DescribeApplies(); got != want {
		t.Errorf("got %s", got)
	}
}

func TestPolicyCountsValuesOfChecksOrReports(t *testing.T) {
	for _, text := range []string{"15/d distinct path", "15/d distinct account"} {
		p := &rules.Policy{Name: "p", Match: []keys.Pattern{{}}, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}
		p.Match[0], _ = keys.Parser{}.Pattern("*")
		p.Rules, _ = rules.ParseStack([]string{text})
		if p.Validate() != nil {
			t.Errorf("%s by checks: %v", text, p.Validate())
		}
		if p.Outcome = "login_failed"; p.Validate() != nil {
			t.Errorf("%s by reports: %v", text, p.Validate())
		}
		if p.Algorithm = algorithms.GCRA; p.Validate() == nil {
			t.Errorf("%s by GCRA is valid", text)
		}
	}
}
