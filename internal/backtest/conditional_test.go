package backtest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func TestRunAppliesConditionsToLoggedRequests(t *testing.T) {
	everyKey, _ := keys.Parser{}.Pattern("*")
	policy := func(name, rule string, when conditions.Texts) *rules.Policy {
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
		policy("default", "4/m", conditions.Texts{}),
		policy("trap", "0/s", conditions.Texts{"path": {"/.env"}}),
		policy("login", "1/m", conditions.Texts{"path": {"/login"}, "method": {"POST"}}),
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

func TestRunDerivesOutcomesFromTheLoggedStatus(t *testing.T) {
	everyKey, _ := keys.Parser{}.Pattern("*")
	policy := func(name, rule, outcome string, path ...string) *rules.Policy {
		stack, err := rules.ParseStack([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		w, err := conditions.Parse(conditions.Texts{"path": path})
		if err != nil {
			t.Fatal(err)
		}
		return &rules.Policy{Name: name, Match: []keys.Pattern{everyKey}, When: w, Outcome: outcome, Rules: stack, Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
	}
	plan := backtest.PoliciesPlan([]*rules.Policy{
		policy("default", "100/m", ""), policy("misses", "2/d", "not_found"), policy("guessing", "1/d", "login_failed", "/login"),
	})
	var records []accesslog.Record
	add := func(key, method, path string, status int) {
		record := at(t, float64(len(records)), key)
		record.Method, record.Path, record.Status = method, path, status
		records = append(records, record)
	}
	add("token:scanner", "GET", "/old", 404)
	add("token:scanner", "GET", "/style.css", 404) // not a not_found outcome
	add("token:scanner", "GET", "/a", 404)         // the second
	add("token:scanner", "GET", "/b", 404)         // refused, so that it is not answered
	add("token:scanner", "GET", "/", 200)          // refused, whatever the path is
	add("token:guesser", "POST", "/admin", 401)    // its conditions are not met
	add("token:guesser", "POST", "/login", 403)
	add("token:guesser", "GET", "/", 200) // refused
	add("token:other", "GET", "/", 200)
	run := func(outcomes answers.Outcomes) (int64, map[string]int64) {
		report, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{Plan: plan, Outcomes: outcomes})
		if err != nil {
			t.Fatal(err)
		}
		failed := map[string]int64{}
		for _, r := range report.Rules {
			failed[r.Policy] = r.Failed
		}
		return report.Refused, failed
	}
	if refused, by := run(nil); refused != 3 || by["misses"] != 2 || by["guessing"] != 1 || by["default"] != 0 {
		t.Errorf("refused %d, by %v", refused, by)
	}
	own, err := answers.ParseOutcomes([]string{"200=not_found"})
	if err != nil {
		t.Fatal(err)
	}
	if refused, by := run(own); refused != 0 {
		t.Errorf("under other outcomes %d are refused, by %v", refused, by)
	}
}

func TestDistinctRulesUseThePathsOfALog(t *testing.T) {
	everyKey, _ := keys.Parser{}.Pattern("*")
	policy := func(name, rule, outcome string) *rules.Policy {
		stack, err := rules.ParseStack([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		return &rules.Policy{Name: name, Match: []keys.Pattern{everyKey}, Outcome: outcome, Rules: stack, Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
	}
	var records []accesslog.Record
	for i, path := range []string{"/a", "/a", "/b", "/a", "/c", "/a"} {
		record := at(t, float64(i), "ip:203.0.113.7")
		record.Method, record.Path, record.Status = "GET", path, 404
		records = append(records, record)
	}
	for name, c := range map[string]struct {
		outcome string
		refused int64
	}{"by checks": {"", 1}, "by reports": {"not_found", 3}} {
		plan := backtest.PoliciesPlan([]*rules.Policy{policy("paths", "2/h distinct path", c.outcome)})
		counters, err := plan.Under(algorithms.ByName("fixed_window"), algorithms.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range []backtest.Plan{plan, counters} { // a counter knows no values
			report, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{Plan: plan, Outcomes: answers.DefaultOutcomes(nil)})
			if err != nil || report.Refused != c.refused {
				t.Errorf("%s: refused %d, want %d, %v", name, report.Refused, c.refused, err)
			}
		}
	}
}

// The report says of each item of evidence what it found, and how many of these keys were refused.
func TestRunCountsWhatEvidenceFound(t *testing.T) {
	everyKey, _ := keys.Parser{}.Pattern("*")
	stack, err := rules.ParseStack([]string{"20 points/1h"})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := conditions.Parse(conditions.Texts{"path": {"/.env"}})
	if err != nil {
		t.Fatal(err)
	}
	plan := backtest.PoliciesPlan([]*rules.Policy{{
		Name: "suspicion", Match: []keys.Pattern{everyKey}, Rules: stack, Mode: rules.Enforce, Algorithm: algorithms.PointLog,
		Evidence: []rules.Evidence{
			{Points: 20, When: secrets}, {Points: 1, Outcome: conditions.NotFound}, {Points: 1, Outcome: conditions.NotFound, Distinct: "path"},
			{Points: -1, Outcome: answers.Browsed, Forgives: conditions.NotFound},
		},
	}})
	var records []accesslog.Record
	add := func(key, path string, status int) {
		record := at(t, float64(len(records)), key)
		record.Method, record.Path, record.Status = "GET", path, status
		records = append(records, record)
	}
	add("ip:203.0.113.7", "/.env", 404)
	add("ip:203.0.113.7", "/", 200)
	add("ip:203.0.113.8", "/old", 404)
	add("ip:203.0.113.8", "/older", 404)
	for n := range 20 {
		add("ip:203.0.113.9", fmt.Sprint("/", n, ".css"), 200)
	}
	site, err := answers.NewSite(nil)
	if err != nil {
		t.Fatal(err)
	}
	against := plan
	report, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{Plan: plan, Against: &against, Outcomes: answers.DefaultOutcomes(site)})
	if err != nil {
		t.Fatal(err)
	}
	want := []backtest.EvidenceCount{
		{Policy: "suspicion", Evidence: "the path is /.env", Points: 20, Requests: 1, Keys: 1, Refused: 1},
		{Policy: "suspicion", Evidence: "not found", Points: 1, Requests: 2, Keys: 1},
		{Policy: "suspicion", Evidence: "not found, each path once", Points: 1, Requests: 2, Keys: 1},
		{Policy: "suspicion", Evidence: "browsed", Points: -1, Requests: 1, Keys: 1},
	}
	if !slices.Equal(report.Evidence, want) || !slices.Equal(report.Comparison.Evidence, want) {
		t.Errorf("got %+v and %+v, want %+v", report.Evidence, report.Comparison.Evidence, want)
	}
	for what, write := range map[string]func(*bytes.Buffer) error{
		"EVIDENCE AGAINST":  func(b *bytes.Buffer) error { return report.WriteText(b, backtest.TextOptions{}) },
		"<th>Evidence</th>": func(b *bytes.Buffer) error { return report.WriteHTML(b, 0) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, what) || !strings.Contains(text, "suspicion: the path is /.env") {
			t.Errorf("%s is missing:\n%s", what, text)
		}
	}
}
