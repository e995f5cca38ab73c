package backtest_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// A recording says nothing of attacks, so that what a policy for attacks would refuse at most is shown.
func TestPoliciesForAttacksApplyAllTheTime(t *testing.T) {
	p := &rules.Policy{Name: "strict", Match: []keys.Pattern{pattern(t, "ip:*")}, InAttack: true, Rules: stack(t, "1/1m"), Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
	plan := backtest.PoliciesPlan([]*rules.Policy{p})
	report := run(t, backtest.Options{Plan: plan}, at(t, 0, "ip:192.0.2.7"), at(t, 1, "ip:192.0.2.7"), at(t, 2, "ip:192.0.2.8"))
	if got := report.Refused; got != 1 {
		t.Errorf("%d requests are refused, want 1", got)
	}
	if texts := (backtest.Options{Plan: plan}).Warnings(); len(texts) != 1 || !strings.Contains(texts[0], "only while an attack goes on") {
		t.Errorf("the warnings are %q", texts)
	}
}
