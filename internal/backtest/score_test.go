package backtest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// escalating is a plan with a rule that blocks a key for ten minutes after two offences within
// five.
func escalating(t *testing.T, rule string) backtest.Plan {
	t.Helper()
	everyKey, _ := keys.Parser{}.Pattern("*")
	return backtest.PoliciesPlan([]*rules.Policy{{
		Name: "default", Match: []keys.Pattern{everyKey}, Rules: stack(t, rule), Mode: rules.Enforce, Algorithm: algorithms.TimestampLog,
		Escalation: &rules.Escalation{Threshold: 2, Window: 5 * time.Minute, Duration: 10 * time.Minute, Factor: 2, MaxDuration: time.Hour, DecayAfter: 24 * time.Hour},
	}})
}

func TestEscalationsBlockLikeANode(t *testing.T) {
	var records []accesslog.Record
	for _, seconds := range []float64{
		0, 1, 2, // two offences, so that a block begins at 5 s and ends at 602 s
		100, 599, // blocked
		603, 604, 605, // one is allowed, and two offences make the second block, of twenty minutes
		700, 1804, // blocked
		1806, // the block has ended
	} {
		records = append(records, at(t, seconds, "ip:192.0.2.1"))
	}
	records = append(records, at(t, 1806, "ip:192.0.2.2"))
	report := run(t, backtest.Options{Plan: escalating(t, "1/1m")}, records...)
	want := backtest.EscalationCount{Policy: "default", Keys: 1, Blocks: 2, Refused: 4}
	if len(report.Escalations) != 1 || report.Escalations[0] != want || report.Blocked != 4 || report.Refused != 8 || report.Rules[0].Failed != 4 {
		t.Errorf("escalations %+v, blocked %d, refused %d, by the rule %d", report.Escalations, report.Blocked, report.Refused, report.Rules[0].Failed)
	}
	var out bytes.Buffer
	if err := report.WriteText(&out, backtest.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "4 of them by automatic blocks") || !strings.Contains(out.String(), "KEYS BLOCKED") {
		t.Errorf("the text is\n%s", out.String())
	}
}

// What policies and blocks challenge is counted, each request once.
func TestChallengedRequestsAreCounted(t *testing.T) {
	p := policy(t, "site", rules.Enforce, "*", "1/1m")
	p.OnLimit = rules.ChallengeOnLimit
	report := run(t, backtest.Options{Plan: backtest.PoliciesPlan([]*rules.Policy{p})}, at(t, 0, "ip:192.0.2.1"), at(t, 1, "ip:192.0.2.1"), at(t, 2, "ip:192.0.2.1"))
	if report.Refused != 2 || report.Challenged != 2 {
		t.Errorf("refused %d, challenged %d, want 2 and 2", report.Refused, report.Challenged)
	}
	p.OnLimit, p.Escalation = rules.LimitOnLimit, &rules.Escalation{Threshold: 2, Window: 5 * time.Minute, Duration: 10 * time.Minute, Factor: 2, MaxDuration: time.Hour, DecayAfter: 24 * time.Hour, ChallengeLevels: 1}
	var records []accesslog.Record
	for _, seconds := range []float64{0, 1, 2, 100, 599, 603, 604, 605, 700} { // the second block, at 700, refuses
		records = append(records, at(t, seconds, "ip:192.0.2.1"))
	}
	report = run(t, backtest.Options{Plan: backtest.PoliciesPlan([]*rules.Policy{p})}, records...)
	if report.Blocked != 3 || report.Challenged != 2 {
		t.Errorf("blocked %d, challenged %d, want 3 and 2", report.Blocked, report.Challenged)
	}
	var out bytes.Buffer
	if err := report.WriteText(&out, backtest.TextOptions{}); err != nil || !strings.Contains(out.String(), "2 of them challenged") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestRequestWithTooHighACostIsNoOffence(t *testing.T) {
	var records []accesslog.Record
	for i := range 4 {
		record := at(t, float64(i*100), "ip:192.0.2.1")
		record.Cost = 2
		records = append(records, record)
	}
	report := run(t, backtest.Options{Plan: escalating(t, "1/1m")}, records...)
	if report.TooCostly != 4 || report.Blocked != 0 || report.Escalations[0].Blocks != 0 {
		t.Errorf("too costly %d, blocked %d, escalations %+v", report.TooCostly, report.Blocked, report.Escalations)
	}
}

const truthCSV = `key,label,first_attack
192.0.2.1,scanner,1970-01-01T00:00:10Z
ip:192.0.2.2,scanner,10
2001:db8::7,scanner,
ip:192.0.2.3,visitor,
ip:192.0.2.9,visitor,
`

func TestPlanIsScoredByTheGroundTruth(t *testing.T) {
	truth, err := backtest.ReadTruth(strings.NewReader(truthCSV), "truth.csv", keys.Parser{})
	if err != nil {
		t.Fatal(err)
	}
	records := []accesslog.Record{
		at(t, 1, "ip:192.0.2.1"),                             // before its attack
		at(t, 10, "ip:192.0.2.1"),                            // served
		at(t, 11, "ip:192.0.2.1"),                            // served
		at(t, 14, "ip:192.0.2.1"), at(t, 15, "ip:192.0.2.1"), // refused
		at(t, 16, "ip:192.0.2.2"),                                                                                  // never caught
		at(t, 20, "ip:192.0.2.3"), at(t, 21, "ip:192.0.2.3"), at(t, 22, "ip:192.0.2.3"), at(t, 23, "ip:192.0.2.3"), // the last is refused
		at(t, 30, "ip:198.51.100.1"),
	}
	against := backtest.StackPlan(stack(t, "1/h"))
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "3/h")), Against: &against, Truth: truth}, records...)
	s := report.Score
	if len(s.Attackers) != 1 || s.Attackers[0] != (backtest.AttackerScore{
		Label: "scanner", Attackers: 2, Caught: 1, Requests: 5, Served: 3, ServedMedian: 2, ServedMax: 2, TimeMedian: 4, TimeMax: 4,
	}) {
		t.Errorf("the attackers are %+v", s.Attackers)
	}
	if got := fmt.Sprint(s.Benign); got != "[{before an attack 1 0 1 0 0 0} {not listed 1 0 1 0 0 0} {visitor 1 1 4 1 0.25 0}]" || s.Absent != 2 {
		t.Errorf("the benign are %s, absent %d", got, s.Absent)
	}
	if a := report.Comparison.Score.Attackers[0]; a.Caught != 1 || a.ServedMax != 0 || a.Served != 1 {
		t.Errorf("the second plan's are %+v", a)
	}
	var out bytes.Buffer
	if err := report.WriteText(&out, backtest.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nscanner  ", "1 of 2", "2 keys of the truth made no request", "ATTACKERS AGAINST", "RANGES PROPOSED  ATTACKERS IN THEM", "0 of 2", "25.00 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := report.WriteJSON(&out); err != nil || strings.Count(out.String(), `"served_until_caught_median"`) != 2 {
		t.Errorf("%v: the JSON is\n%s", err, out.String())
	}
}

func TestGroundTruthIsParsedStrictly(t *testing.T) {
	lines := `{"key":"token:a","label":"x","first_attack":"2026-01-01T00:00:00Z"}

{"key":"token:b","label":"y"}
`
	if _, err := backtest.ReadTruth(strings.NewReader(lines), "truth.json", keys.Parser{}); err != nil {
		t.Errorf("JSON lines: %v", err)
	}
	many := "key,label,first_attack\n"
	for i := range 201 {
		many += fmt.Sprintf("token:%d,label%d,\n", i, i)
	}
	for text, want := range map[string]string{
		"":                                    "names no key",
		"key,label,first_attack\n":            "names no key",
		"key,label\n1,2\n":                    "needs the columns",
		"key,label,first_attack\nip:x,a,\n":   "truth:2",
		"key,label,first_attack\ntoken:x,,\n": "label must be",
		"key,label,first_attack\ntoken:x,a,soon\n":  "Unix seconds",
		"key,label,first_attack\nt:x,a,\nt:x,b,1\n": "is both",
		"key,label,first_attack\nt:x\n":             "wrong number of fields",
		"{\"key\":1}\n":                             "line 1",
		many:                                        "more than 200 labels",
	} {
		if _, err := backtest.ReadTruth(strings.NewReader(text), "truth", keys.Parser{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestTimelineIsBoundedAndComplete(t *testing.T) {
	var records []accesslog.Record
	for i := range 5000 {
		records = append(records, at(t, float64(i*i)/10, "ip:192.0.2.1"))
	}
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "100/d"))}, records...)
	var sum, refused int64
	for _, p := range report.Timeline.Points {
		sum += p.Requests
		refused += p.Refused
	}
	if n := len(report.Timeline.Points); n > 240 || n < 120 || sum != report.Requests || refused != report.Refused {
		t.Errorf("%d points, %d requests, %d refused; want %d and %d", n, sum, refused, report.Requests, report.Refused)
	}
}

// Ten addresses of a network each are refused three times, of another network seven, and
// of a third eight whose network asks for much more that is allowed.
func TestRangesAreProposedLikeOnANode(t *testing.T) {
	truth := backtest.NewTruth()
	scorer := backtest.NewScorer(truth)
	begin := time.Unix(1_790_000_000, 0)
	count := func(n int, format string, label string, refused int, every time.Duration) {
		t.Helper()
		attack := time.Time{}
		if label == "botnet" {
			attack = begin
		}
		for j := range 3 {
			for i := range n {
				k, err := keys.Parser{}.Key(fmt.Sprintf(format, i))
				if err == nil && j == 0 {
					err = truth.Add(k, label, attack)
				}
				if err != nil {
					t.Fatal(err)
				}
				scorer.Count(k.String(), begin.Add(time.Duration(j)*every), j < refused)
			}
		}
	}
	count(5, "ip:203.0.113.10%d", "neighbour", 0, time.Second)
	count(10, "ip:203.0.113.%d", "botnet", 3, time.Second)
	count(7, "ip:198.51.100.%d", "botnet", 3, time.Second)            // too few
	count(9, "ip:198.18.1.%d", "botnet", 1, time.Second)              // each once
	count(9, "ip:198.18.2.%d", "botnet", 3, 11*time.Minute)           // never two within the window
	count(8, "ip:2001:db8:1:%d::1", "botnet", 2, time.Second)         // proposed
	count(8, "token:%d", "visitor", 3, time.Second)                   // no addresses
	count(90, "ip:192.0.2.1%02d", "visitor", 0, 100*time.Millisecond) // of an office
	count(8, "ip:192.0.2.%d", "botnet", 2, time.Second)
	got := scorer.Score().Ranges
	if want := (backtest.RangeScore{Proposed: 2, Attackers: 51, AttackersCovered: 18, Benign: 103, BenignCovered: 5}); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	scorer = backtest.NewScorer(truth)
	scorer.Count("token:1", begin, true)
	if got := scorer.Score().Ranges; got != nil {
		t.Errorf("the ranges without addresses are %+v, want nil", got)
	}
}
