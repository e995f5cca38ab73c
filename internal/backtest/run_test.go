package backtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

var key, pattern = keytest.Key, keytest.Pattern

// at returns a record of key that many seconds after the epoch.
func at(t testing.TB, seconds float64, text string) accesslog.Record {
	return accesslog.Record{Time: int64(seconds * 1000), Key: key(t, text), Cost: 1}
}

func run(t testing.TB, o backtest.Options, records ...accesslog.Record) *backtest.Report {
	t.Helper()
	report, err := backtest.Run(context.Background(), accesslog.Slice(records), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRuleCountsRefusalsAloneAndBesideOthers(t *testing.T) {
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "1/s", "2/m"))},
		at(t, 0, "a"),   // allowed
		at(t, 0.5, "a"), // 1/s alone
		at(t, 1, "a"),   // allowed
		at(t, 1.5, "a"), // both
		at(t, 5, "a"),   // 2/m alone
		at(t, 59, "a"),  // 2/m alone
		at(t, 60, "a"),  // allowed: the first one has left the minute
		at(t, 60, "b"),  // allowed
	)
	want := []backtest.RuleCount{{Rule: "1/1s", Failed: 2, Alone: 1, Decided: 1}, {Rule: "2/1m", Failed: 3, Alone: 2, Decided: 3}}
	if !reflect.DeepEqual(report.Rules, want) {
		t.Errorf("rules are %+v, want %+v", report.Rules, want)
	}
	if report.Allowed != 4 || report.Refused != 4 || report.Keys != 2 {
		t.Errorf("allowed %d, refused %d, keys %d; want 4, 4, 2", report.Allowed, report.Refused, report.Keys)
	}
	offender := backtest.Offender{
		Key: "a", Requests: 7, Allowed: 3, Refused: 4, Ratio: 1,
		First: time.UnixMilli(500).UTC(), Last: time.UnixMilli(59_000).UTC(), FirstRule: "1/1s",
	}
	if want := []backtest.Offender{offender}; !reflect.DeepEqual(report.Offenders, want) {
		t.Errorf("offenders are %+v, want %+v", report.Offenders, want)
	}
}

func TestCostCountsAsThatManyRequests(t *testing.T) {
	expensive := at(t, 1, "a")
	expensive.Cost = 3
	tooLarge := at(t, 2, "a")
	tooLarge.Cost = 6
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "5/m", "50/h"))},
		at(t, 0, "a"), expensive, tooLarge, at(t, 3, "a"), at(t, 4, "a"))
	if report.Allowed != 3 || report.Refused != 2 || report.TooCostly != 1 {
		t.Errorf("allowed %d, refused %d, too costly %d; want 3, 2, 1", report.Allowed, report.Refused, report.TooCostly)
	}
	want := []backtest.RuleCount{{Rule: "5/1m", Failed: 2, Alone: 2, Decided: 2}, {Rule: "50/1h"}}
	if !reflect.DeepEqual(report.Rules, want) {
		t.Errorf("rules are %+v, want %+v", report.Rules, want)
	}
}

// Under a policy of amounts a request may cost as much as its limit; under others at most what a check may.
func TestALogSaysAmounts(t *testing.T) {
	tokens, plain := policy(t, "tokens", rules.Enforce, "*", "1M tokens/1h"), policy(t, "plain", rules.Enforce, "*", "100000/1h")
	tokens.Algorithm = algorithms.AmountLog
	for _, test := range []struct {
		p    *rules.Policy
		want [3]int64
	}{{tokens, [3]int64{2, 1, 0}}, {plain, [3]int64{0, 3, 3}}} {
		var records []accesslog.Record
		for i := range 3 {
			r := at(t, float64(i), "a")
			r.Cost = 400_000
			records = append(records, r)
		}
		report := run(t, backtest.Options{Plan: backtest.PoliciesPlan([]*rules.Policy{test.p})}, records...)
		if got := [3]int64{report.Allowed, report.Refused, report.TooCostly}; got != test.want {
			t.Errorf("%s: allowed, refused and too costly are %v, want %v", test.p.Name, got, test.want)
		}
	}
}

func policy(t testing.TB, name string, mode rules.Mode, match string, limits ...string) *rules.Policy {
	return &rules.Policy{
		Name: name, Match: []keys.Pattern{pattern(t, match)}, Rules: stack(t, limits...), Mode: mode, Algorithm: algorithms.TimestampLog,
	}
}

func TestRunLimitsEachKeyByItsPolicy(t *testing.T) {
	plan := backtest.PoliciesPlan([]*rules.Policy{
		policy(t, "default", rules.Enforce, "*", "1/m"),
		policy(t, "strict", rules.Enforce, "ip:10.0.0.0/8", "0/s"),
		policy(t, "partners", rules.Off, "token:partner_*", "1/h"),
		policy(t, "trial", rules.Shadow, "*", "0/s"),
	})
	report := run(t, backtest.Options{Plan: plan},
		at(t, 0, "ip:10.1.2.3"),     // refused by strict
		at(t, 1, "ip:192.0.2.1"),    // allowed by default
		at(t, 2, "ip:192.0.2.1"),    // refused by default
		at(t, 3, "token:partner_1"), // no rule applies
		at(t, 4, "token:partner_1"), // no rule applies
	)
	if report.Allowed != 3 || report.Refused != 2 || report.Unlimited != 2 {
		t.Errorf("allowed %d, refused %d, unlimited %d; want 3, 2, 2", report.Allowed, report.Refused, report.Unlimited)
	}
	want := []backtest.RuleCount{{Policy: "default", Rule: "1/1m", Failed: 1, Alone: 1, Decided: 1}, {Policy: "strict", Rule: "0/1s", Failed: 1, Alone: 1, Decided: 1}}
	if !reflect.DeepEqual(report.Rules, want) {
		t.Errorf("rules are %+v, want %+v", report.Rules, want)
	}
	if report.Plan != "default, strict, partners, trial" {
		t.Errorf("the plan is called %q", report.Plan)
	}
}

func TestRunMatchesPoliciesByTheFullIPv6Address(t *testing.T) {
	plan := backtest.PoliciesPlan([]*rules.Policy{
		policy(t, "one", rules.Enforce, "ip:2001:db8::1/128", "0/s"),
		policy(t, "rest", rules.Enforce, "*", "10/s"),
	})
	report := run(t, backtest.Options{Plan: plan},
		at(t, 0, "ip:2001:db8::2"), at(t, 1, "ip:2001:db8::1"), at(t, 2, "ip:2001:db8::3"), at(t, 3, "ip:2001:db8::1"))
	if report.Keys != 1 || report.Refused != 2 || report.Rules[0].Failed != 2 {
		t.Errorf("keys %d, refused %d, %d by the /128; want 1, 2, 2", report.Keys, report.Refused, report.Rules[0].Failed)
	}
}

func TestComparisonListsRequestsOnWhichThePlansDiffer(t *testing.T) {
	against := backtest.StackPlan(stack(t, "2/m"))
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "1/10s")), Against: &against},
		at(t, 0, "quick"), at(t, 1, "quick"), // only 1/10s refuses the second
		at(t, 10, "slow"), at(t, 20, "slow"), at(t, 30, "slow"), // only 2/m refuses the third
		at(t, 40, "both"), at(t, 41, "both"), at(t, 42, "both"), // 1/10s refuses two, 2/m the last
	)
	c := report.Comparison
	if c.Allowed != 6 || c.Refused != 2 || report.Refused != 3 || c.NewlyRefused != 2 || c.NewlyAllowed != 1 {
		t.Errorf("the comparison is %+v of %+v", c, report)
	}
	wantRefused := []backtest.Change{
		{Key: "both", Changed: 1, Requests: 3, Refused: 2, RefusedAgainst: 1, First: time.UnixMilli(41_000).UTC()},
		{Key: "quick", Changed: 1, Requests: 2, Refused: 1, First: time.UnixMilli(1_000).UTC()},
	}
	if !reflect.DeepEqual(c.NewlyRefusedKeys, wantRefused) {
		t.Errorf("newly refused are %+v, want %+v", c.NewlyRefusedKeys, wantRefused)
	}
	wantAllowed := []backtest.Change{
		{Key: "slow", Changed: 1, Requests: 3, RefusedAgainst: 1, First: time.UnixMilli(30_000).UTC()},
	}
	if !reflect.DeepEqual(c.NewlyAllowedKeys, wantAllowed) {
		t.Errorf("newly allowed are %+v, want %+v", c.NewlyAllowedKeys, wantAllowed)
	}
}

func TestPlanThatAllowsEverythingRefusesNobody(t *testing.T) {
	for name, plan := range map[string]backtest.Plan{
		"the zero plan": {}, "an empty stack": backtest.StackPlan(nil), "no policies": backtest.PoliciesPlan(nil),
	} {
		t.Run(name, func(t *testing.T) {
			report := run(t, backtest.Options{Plan: plan}, at(t, 0, "a"), at(t, 0, "a"))
			if report.Allowed != 2 || report.Unlimited != 2 || len(report.Offenders) != 0 {
				t.Errorf("the report is %+v", report)
			}
		})
	}
}

func TestNoRequestsGiveAnEmptyReport(t *testing.T) {
	report := run(t, backtest.Options{Plan: backtest.StackPlan(defaultStack(t))})
	if report.Requests != 0 || !report.First.IsZero() || len(report.Rules) != 4 {
		t.Errorf("the report is %+v", report)
	}
}

func TestUnsortedRecordsAreAnErrorWithTheirNumber(t *testing.T) {
	records := []accesslog.Record{at(t, 5, "a"), at(t, 4, "a")}
	_, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{})
	if !errors.Is(err, backtest.ErrUnsorted) {
		t.Fatalf("the error is %v, want ErrUnsorted", err)
	}
	const want = "record 2 is of 1970-01-01T00:00:04Z, before 1970-01-01T00:00:05Z: the records are not in the order of time"
	if err.Error() != want {
		t.Errorf("the error reads %q, want %q", err, want)
	}
}

func TestCancelledBacktestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	records := make([]accesslog.Record, 1<<15)
	for i := range records {
		records[i] = at(t, float64(i), "a")
	}
	o := backtest.Options{Plan: backtest.StackPlan(defaultStack(t)), Progress: func(int64) { cancel() }}
	if _, err := backtest.Run(ctx, accesslog.Slice(records), o); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want context.Canceled", err)
	}
}

func TestRunReportsProgressUpToTheLastRecord(t *testing.T) {
	records := make([]accesslog.Record, 20_000)
	for i := range records {
		records[i] = at(t, float64(i), "a")
	}
	var progress []int64
	o := backtest.Options{Progress: func(n int64) { progress = append(progress, n) }}
	run(t, o, records...)
	if len(progress) < 2 || progress[len(progress)-1] != 20_000 {
		t.Errorf("the progress was %v", progress)
	}
}

func TestSameRecordsGiveTheSameReport(t *testing.T) {
	var records []accesslog.Record
	for i := range 5_000 {
		records = append(records, at(t, float64(i)/10, fmt.Sprintf("token:%d", i*i%61)))
	}
	against := backtest.StackPlan(stack(t, "3/20s"))
	o := backtest.Options{Plan: backtest.StackPlan(stack(t, "1/2s", "10/m")), Against: &against}
	if first, second := run(t, o, records...), run(t, o, records...); !reflect.DeepEqual(first, second) {
		t.Errorf("the reports differ: %+v and %+v", first, second)
	}
}

// TestAnyRecordsMatchAnIndependentCount compares with the count of
// real_test.go on random stacks and clients.
func TestAnyRecordsMatchAnIndependentCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, err := rules.NewStack(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rules.Rule {
			return rules.Rule{
				Limit:  rapid.IntRange(0, 8).Draw(t, "limit"),
				Window: time.Duration(rapid.IntRange(1, 20_000).Draw(t, "window")) * time.Millisecond,
			}
		}), 1, 5).Draw(t, "rules")...)
		if err != nil {
			t.Fatal(err)
		}
		var records []accesslog.Record
		var plain []plainRequest
		now := int64(0)
		for range rapid.IntRange(0, 80).Draw(t, "requests") {
			now += rapid.Int64Range(0, 5_000).Draw(t, "pause")
			client := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client")
			k, err := keys.Parser{}.Key(client)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, accesslog.Record{Time: now, Key: k, Cost: 1})
			plain = append(plain, plainRequest{client, time.UnixMilli(now)})
		}
		want := countPlainly(plain, limits)
		got, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{Plan: backtest.StackPlan(limits)})
		if err != nil {
			t.Fatal(err)
		}
		if int(got.Allowed) != want.allowed || int(got.Refused) != want.refused {
			t.Fatalf("allowed %d, refused %d; want %d, %d", got.Allowed, got.Refused, want.allowed, want.refused)
		}
		for i, rule := range got.Rules {
			if int(rule.Failed) != want.failed[i] || int(rule.Alone) != want.alone[i] {
				t.Fatalf("%s failed %d times, %d alone; want %d, %d", rule.Rule, rule.Failed, rule.Alone, want.failed[i], want.alone[i])
			}
		}
		for _, o := range got.Offenders {
			if int(o.Refused) != want.byClient[o.Key] {
				t.Fatalf("%s was refused %d times, want %d", o.Key, o.Refused, want.byClient[o.Key])
			}
		}
	})
}

// endless yields requests of a few keys.
type endless struct {
	keys []keys.Key
	n    int
	left int
}

func (e *endless) Next() (accesslog.Record, error) {
	if e.left == 0 {
		return accesslog.Record{}, io.EOF
	}
	e.left--
	e.n++
	return accesslog.Record{Time: int64(e.n) * 10, Key: e.keys[e.n%len(e.keys)], Cost: 1}, nil
}

func TestRunMemoryDoesNotGrowWithTheLines(t *testing.T) {
	few := []keys.Key{key(t, "a"), key(t, "b"), key(t, "c")}
	against := backtest.StackPlan(stack(t, "5/10s"))
	o := backtest.Options{Plan: backtest.StackPlan(defaultStack(t)), Against: &against}
	allocated := func(lines int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := backtest.Run(context.Background(), &endless{keys: few, left: lines}, o); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if short, long := allocated(20_000), allocated(220_000); long > short+100_000 {
		t.Errorf("20,000 lines allocate %d bytes and 220,000 allocate %d", short, long)
	}
}
