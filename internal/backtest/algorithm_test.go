package backtest_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
)

// under returns a plan that uses an algorithm.
func under(t *testing.T, plan backtest.Plan, name string, o algorithms.Options) backtest.Plan {
	t.Helper()
	changed, err := plan.Under(algorithms.ByName(name), o)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestRunComparesTwoAlgorithms(t *testing.T) {
	plan := backtest.StackPlan(stack(t, "1/s", "4/m"))
	counting := under(t, plan, algorithms.SortedSetLog, algorithms.Options{CountRefused: true})
	var records []accesslog.Record
	for half := range 8 { // twice a second, and once a second
		records = append(records, at(t, float64(half)/2, "hasty"))
		if half%2 == 0 {
			records = append(records, at(t, float64(half)/2, "slow"))
		}
	}
	report := run(t, backtest.Options{Plan: counting, Against: &plan}, records...)
	if report.Allowed != 5 || report.Refused != 7 {
		t.Errorf("with refused requests counted %d are allowed and %d refused, want 5 and 7", report.Allowed, report.Refused)
	}
	c := report.Comparison
	if c.Allowed != 8 || c.Refused != 4 || c.NewlyRefused != 3 || c.NewlyAllowed != 0 {
		t.Errorf("against it %d are allowed, %d refused, %d newly refused and %d newly allowed", c.Allowed, c.Refused, c.NewlyRefused, c.NewlyAllowed)
	}
	if len(c.NewlyRefusedKeys) != 1 || c.NewlyRefusedKeys[0].Key != "hasty" {
		t.Errorf("the keys that differ are %+v", c.NewlyRefusedKeys)
	}
	for _, rule := range report.Rules {
		if rule.Failed == 0 || rule.Failed > report.Refused {
			t.Errorf("%s failed %d times", rule.Rule, rule.Failed)
		}
	}
}

func TestRunSupportsEveryAlgorithm(t *testing.T) {
	var records []accesslog.Record
	for i := range 200 {
		records = append(records, at(t, float64(i)/7, "a"))
	}
	for _, algorithm := range algorithms.All() {
		plan := under(t, backtest.StackPlan(stack(t, "2/s", "20/m")), algorithm.Name, algorithms.Options{})
		report := run(t, backtest.Options{Plan: plan}, records...)
		if report.Allowed == 0 || report.Refused == 0 || report.Allowed > 60 {
			t.Errorf("%s allows %d and refuses %d of 200, want both, and at most 60 allowed", algorithm.Name, report.Allowed, report.Refused)
		}
		for _, rule := range report.Rules {
			if rule.Failed == 0 {
				t.Errorf("%s: %s never refuses", algorithm.Name, rule.Rule)
			}
		}
	}
}

// Periods of the calendar begin at midnight, whichever algorithm counts the other policies.
func TestPeriodsOfTheCalendarKeepTheirLog(t *testing.T) {
	day := backtest.StackPlan(stack(t, "3/calendar-day"))
	for _, plan := range []backtest.Plan{day, under(t, day, algorithms.TokenBucket, algorithms.Options{Burst: 2}), under(t, day, algorithms.TimestampLog, algorithms.Options{})} {
		var records []accesslog.Record
		for i := range 8 { // four before midnight, and four after it
			records = append(records, at(t, 86_398+float64(i)/2, "a"))
		}
		if report := run(t, backtest.Options{Plan: plan}, records...); report.Allowed != 6 {
			t.Errorf("%d of 8 are allowed, want three of each day", report.Allowed)
		}
	}
}

func TestCostAboveTheBurstIsNeverAllowed(t *testing.T) {
	plan := under(t, backtest.StackPlan(stack(t, "20/m")), algorithms.TokenBucket, algorithms.Options{Burst: 5})
	costly := at(t, 0, "a")
	costly.Cost = 6
	report := run(t, backtest.Options{Plan: plan}, costly, at(t, 0, "a"))
	if report.TooCostly != 1 || report.Allowed != 1 || report.Rules[0].Failed != 1 {
		t.Errorf("got %+v", report)
	}
}

func TestPlanRejectsOptionsThatItsAlgorithmLacks(t *testing.T) {
	if _, err := backtest.StackPlan(stack(t, "1/s")).Under(algorithms.ByName(algorithms.TimestampLog), algorithms.Options{Burst: 5}); err == nil {
		t.Error("Under accepts a burst for timestamp_log")
	}
}
