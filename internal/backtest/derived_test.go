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

// guessing is a policy on failed logins that also counts the account and the network, and
// blocks for ten minutes after two offences.
func guessing(t *testing.T, scope, rule string, also ...string) *rules.Policy {
	t.Helper()
	derived, err := rules.ParseAlso(also)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{
		Name: "guessing", Match: []keys.Pattern{pattern(t, "ip:*")}, Outcome: "login_failed", Scope: scope, Rules: stack(t, rule), Also: derived,
		Mode: rules.Enforce, Algorithm: algorithms.TimestampLog,
		Escalation: &rules.Escalation{Threshold: 2, Window: 5 * time.Minute, Duration: 10 * time.Minute, Factor: 2, MaxDuration: time.Hour, DecayAfter: 24 * time.Hour},
	}
}

// logins are failed logins, one a second, of addresses at accounts.
func logins(t *testing.T, tries ...[2]string) []accesslog.Record {
	t.Helper()
	var records []accesslog.Record
	for i, try := range tries {
		r := at(t, float64(i), "ip:"+try[0])
		r.Method, r.Path, r.Status, r.Account = "POST", "/login", 401, try[1]
		records = append(records, r)
	}
	return records
}

func TestFurtherKeyIsBlockedByItsEscalation(t *testing.T) {
	records := logins(t,
		[2]string{"192.0.2.1", "alice"}, [2]string{"192.0.2.2", "alice"}, // full
		[2]string{"192.0.2.3", "alice"}, [2]string{"192.0.2.4", "alice"}, // refused; the block begins at 6 s
		[2]string{"192.0.2.5", "bob"},
	)
	later := func(seconds float64, address, account string) {
		r := logins(t, [2]string{address, account})[0]
		r.Time, r.Status = int64(seconds*1000), 200
		records = append(records, r)
	}
	later(7, "192.0.2.6", "alice")   // blocked
	later(302, "192.0.2.7", "alice") // blocked, though the limit has room again
	later(302, "192.0.2.7", "bob")
	later(302, "192.0.2.7", "")
	later(604, "192.0.2.6", "alice") // the block has ended
	plan := backtest.PoliciesPlan([]*rules.Policy{guessing(t, "", "10/h", "account 2/1m")})
	report := run(t, backtest.Options{Plan: plan}, records...)
	want := backtest.EscalationCount{Policy: "guessing", Keys: 1, DerivedKeys: 1, Blocks: 1, Refused: 2}
	if report.Escalations[0] != want || report.Refused != 4 || report.Blocked != 2 {
		t.Errorf("escalation %+v, refused %d, blocked %d", report.Escalations[0], report.Refused, report.Blocked)
	}
	if got := fmt.Sprint(report.Rules); got != "[{guessing 10/1h  login_failed  false 0 0 2 false} {guessing 2/1m account login_failed  false 2 2 2 false}]" {
		t.Errorf("the rules are %s", got)
	}
	if got := fmt.Sprint(report.Reports); got != "[{guessing  login_failed 3 0 0} {guessing account login_failed 3 0 0}]" {
		t.Errorf("the reports are %s", got)
	}
	if o := report.Offenders[0]; o.FirstRule != "account 2/1m" {
		t.Errorf("the first offender was refused by %q", o.FirstRule)
	}
}

func TestNetworkIsProposedAndNeverBlocked(t *testing.T) {
	var tries [][2]string
	for i := range 30 {
		tries = append(tries, [2]string{fmt.Sprintf("192.0.2.%d", 1+i%6), fmt.Sprint("account", i)})
	}
	truth := backtest.NewTruth()
	for i := range 6 {
		if err := truth.Add(key(t, fmt.Sprintf("ip:192.0.2.%d", 1+i)), "spray", time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	with := backtest.PoliciesPlan([]*rules.Policy{guessing(t, "", "100/h", "net:/24 10/1h")})
	without := backtest.PoliciesPlan([]*rules.Policy{guessing(t, "", "100/h", "net:/25 10/1h")})
	report := run(t, backtest.Options{Plan: with, Against: &without, Truth: truth}, logins(t, tries...)...)
	if e := report.Escalations[0]; e.Keys != 0 || report.Blocked != 0 || report.Refused != 20 {
		t.Errorf("escalation %+v, refused %d", e, report.Refused)
	}
	// Six members are too few for a proposal by their own offences, which are none here.
	if s := report.Score; s.Ranges.Proposed != 1 || s.Ranges.AttackersCovered != 6 || s.Attackers[0].InRanges != 6 || s.Attackers[0].Caught != 6 {
		t.Errorf("the score is %+v, of the ranges %+v", s, s.Ranges)
	}
	if s := report.Comparison.Score; s.Ranges.Proposed != 0 || s.Attackers[0].InRanges != 0 {
		t.Errorf("Compared with a plan that counts a /25: got %+v, want no proposal", s.Ranges)
	}
}

func TestRangeIsProposedByReportsAlone(t *testing.T) {
	var tries [][2]string
	for i := range 60 {
		tries = append(tries, [2]string{fmt.Sprintf("192.0.2.%d", 1+i%6), fmt.Sprint("account", i)})
	}
	truth := backtest.NewTruth()
	for i := range 6 {
		if err := truth.Add(key(t, fmt.Sprintf("ip:192.0.2.%d", 1+i)), "spray", time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	// No check has the scope, so that none is refused.
	plan := backtest.PoliciesPlan([]*rules.Policy{guessing(t, "elsewhere", "100/h", "net:/24 10/1h")})
	report := run(t, backtest.Options{Plan: plan, Truth: truth}, logins(t, tries...)...)
	if s := report.Score; report.Refused != 0 || s.Ranges.Proposed != 1 || s.Ranges.AttackersCovered != 6 || s.Attackers[0].Caught != 0 {
		t.Errorf("refused %d, the score is %+v, of the ranges %+v", report.Refused, s, s.Ranges)
	}
	report = run(t, backtest.Options{Plan: plan, Truth: truth}, logins(t, tries[:12]...)...)
	if s := report.Score; s.Ranges.Proposed != 0 {
		t.Errorf("after two reports beyond the limit: got %+v, want no proposal", s.Ranges)
	}
}

func TestRunDerivesScopesFromMethodAndPath(t *testing.T) {
	scopes, err := accesslog.ParseScopes([]string{"POST /login=login"})
	if err != nil {
		t.Fatal(err)
	}
	guesser := [2]string{"192.0.2.1", "alice"}
	records := logins(t, guesser, guesser, guesser, guesser) // two are refused; the block begins at 6 s
	for _, seconds := range []float64{5, 302} {
		page := at(t, seconds, "ip:192.0.2.1")
		page.Method, page.Path, page.Status = "GET", "/", 200
		login := logins(t, guesser)[0]
		login.Time = page.Time
		records = append(records, page, login)
	}
	plan := backtest.PoliciesPlan([]*rules.Policy{guessing(t, "login", "2/1m")})
	report := run(t, backtest.Options{Plan: plan, Scopes: scopes}, records...)
	want := backtest.EscalationCount{Policy: "guessing", Scope: "login", Keys: 1, Blocks: 1, Refused: 1}
	if report.Escalations[0] != want || report.Refused != 4 || report.Rules[0].Failed != 3 {
		t.Errorf("escalation %+v, refused %d, by the rule %d", report.Escalations[0], report.Refused, report.Rules[0].Failed)
	}
	if report := run(t, backtest.Options{Plan: plan}, records...); report.Escalations[0] != want || report.Refused != 4 {
		t.Errorf("logins that say no scope: escalation %+v, refused %d", report.Escalations[0], report.Refused)
	}
	for i := range records {
		records[i].Path = "/elsewhere"
	}
	if report := run(t, backtest.Options{Plan: plan}, records...); report.Refused != 0 {
		t.Errorf("%d are refused although no request has a scope", report.Refused)
	}
}

func TestEachRefusingPolicyCountsAnOffence(t *testing.T) {
	own := &rules.Policy{Name: "own", Match: []keys.Pattern{pattern(t, "ip:*")}, Rules: stack(t, "2/2h"), Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
	try := [2]string{"192.0.2.1", "alice"}
	records := logins(t, try, try, try, try) // the last two are refused by both, for longer by the first
	report := run(t, backtest.Options{Plan: backtest.PoliciesPlan([]*rules.Policy{own, guessing(t, "", "2/h")})}, records...)
	if report.Offenders[0].FirstPolicy != "own" || report.Escalations[0].Blocks != 1 {
		t.Errorf("refused by %s; escalations %+v", report.Offenders[0].FirstPolicy, report.Escalations)
	}
}

func TestTablesNameOutcomesScopesAndFurtherKeys(t *testing.T) {
	plan := backtest.PoliciesPlan([]*rules.Policy{guessing(t, "login", "2/h distinct account", "net:/24 10/1h")})
	records := logins(t, [2]string{"192.0.2.1", "alice"}, [2]string{"192.0.2.1", ""})
	report := run(t, backtest.Options{Plan: plan, Against: &plan}, records...)
	var text, page, object bytes.Buffer
	for _, err := range []error{report.WriteText(&text, backtest.TextOptions{}), report.WriteHTML(&page, 0), report.WriteJSON(&object)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"guessing 2/1h distinct account (login_failed, scope login)", "guessing net:/24 10/1h (login_failed, scope login)", "guessing net:/24 (login_failed)", "guessing (scope login)"} {
		if strings.Count(text.String(), want) != 2 || strings.Count(page.String(), want) != 2 {
			t.Errorf("the text or the page does not have %q for both plans:\n%s", want, text.String())
		}
	}
	for _, want := range []string{`"unsaid": 1`, `"derived_key": "net:/24"`, `"scope": "login"`} {
		if !strings.Contains(object.String(), want) {
			t.Errorf("the JSON lacks %s:\n%s", want, object.String())
		}
	}
}

// As in the service, what came before a block in the scope of an escalation does not count after
// it, whichever policy made the block.
func TestOffencesBeforeBlockInScopeDoNotCountAfterIt(t *testing.T) {
	one, other := guessing(t, "login", "2/h"), guessing(t, "login", "2/h")
	one.Escalation.Duration = time.Minute
	other.Name, other.Escalation.Threshold = "other", 3
	var tries [][2]string
	for range 5 {
		tries = append(tries, [2]string{"192.0.2.1", "alice"})
	}
	records := logins(t, tries...) // two are full, two are refused; the block ends at 63 s
	records[4].Time = 130_000
	scopes, err := accesslog.ParseScopes([]string{"/login=login"})
	if err != nil {
		t.Fatal(err)
	}
	report := run(t, backtest.Options{Plan: backtest.PoliciesPlan([]*rules.Policy{one, other}), Scopes: scopes}, records...)
	if report.Refused != 3 || report.Escalations[0].Blocks != 1 || report.Escalations[1].Blocks != 0 {
		t.Errorf("refused %d, escalations %+v; want one block of guessing", report.Refused, report.Escalations)
	}
}
