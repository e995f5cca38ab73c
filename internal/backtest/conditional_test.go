package backtest_test

import (
	"context"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func TestConditionsAreTriedOnTheRequestsOfALog(t *testing.T) {
	everyKey, _ := keys.Parser{}.Pattern("*")
	policy := func(name, rule string, when [4][]string) *rules.Policy {
		stack, err := rules.ParseStack([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		w, err := conditions.Parse(when)
		if err != nil {
			t.Fatal(err)
		}
		return &rules.Policy{Name: name, Match: []keys.Pattern{everyKey}, When: w, Rules: stack, Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
	}
	plan := backtest.PoliciesPlan([]*rules.Policy{
		policy("default", "4/m", [4][]string{}),
		policy("trap", "0/s", [4][]string{conditions.Path: {"/.env"}}),
		policy("login", "1/m", [4][]string{conditions.Path: {"/login"}, conditions.Method: {"POST"}}),
	})
	var records []accesslog.Record
	for i, r := range []struct{ method, path string }{
		{"GET", "/.env?x"}, {"POST", "/login"}, {"POST", "/login"}, {"GET", "/login"}, {"GET", "/"}, {"GET", "/"}, {"GET", "/"},
	} {
		record := at(t, float64(i), "ip:203.0.113.7")
		record.Method, record.Path = r.method, r.path
		records = append(records, record)
	}
	report, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, r := range report.Rules {
		got[r.Policy] = r.Failed
	}
	if report.Refused != 3 || got["trap"] != 1 || got["login"] != 1 || got["default"] != 1 {
		t.Errorf("refused %d, by %v", report.Refused, got)
	}
}
