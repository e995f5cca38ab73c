package backtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// served is a node of the service on the clock of a recording.
type served struct {
	*gate.Gate
	*recorder.Flusher
	selector *rules.Selector
	set      *blocks.Set
	now      time.Time
	earned   []*blocks.Entry // blocks that begin later
}

func (n *served) Loaded() bool               { return true }
func (n *served) Selector() *rules.Selector  { return n.selector }
func (n *served) Blocks() *blocks.Set        { return n.set }
func (n *served) Profiles() *profiles.Set    { return profiles.NewSet() }
func (n *served) Settings() catalog.Settings { return catalog.Settings{Secret: []byte("secret")} }

func newServed(t interface{ Cleanup(func()) }, sink recorder.Sink, policies []*rules.Policy) *served {
	n := &served{selector: rules.NewSelector(policies), set: blocks.NewSet()}
	clock := func() time.Time { return n.now }
	secret := func() []byte { return []byte("0123456789abcdef0123456789abcdef") }
	log := memlog.New(memlog.Options{Now: clock})
	t.Cleanup(func() { log.Close() })
	counter := recorder.NewRecorder(recorder.Options{Secret: secret, Node: "a"})
	n.Gate = gate.New(gate.Options{View: n, Log: log, Now: clock, Recorder: counter, Reports: counter})
	n.Flusher = recorder.NewFlusher(recorder.FlusherOptions{Recorder: counter, Sink: sink, Node: "a", Secret: secret, Now: clock, Log: slog.New(slog.DiscardHandler),
		Escalations:  func() map[int64]offences.EscalationPolicy { return offences.EscalationsOf(policies) },
		SafetyLimit:  func() float64 { return 1 },
		OnEscalation: n.keep,
	})
	return n
}

func (n *served) keep(events []offences.EscalationEvent) {
	for _, e := range events {
		if k, err := offences.ParseKey(e.Key); err == nil && e.Kind == offences.EscalationBlocked {
			policy, _ := n.selector.ByID(e.Policy)
			n.earned = append(n.earned, &blocks.Entry{ID: e.BlockID, Kind: blocks.Block, Pattern: keys.PatternOf(k), EntryTerms: wire.EntryTerms{Scope: policy.Scope}, Created: blocks.MomentOf(e.At), Expires: e.At.Add(e.Length)})
		}
	}
}

// decide checks a record as a caller does, and reports its outcomes if it is allowed.
func (n *served) decide(ctx context.Context, r accesslog.Record, scopes accesslog.Scopes) (isRefused bool, err error) {
	n.now = time.UnixMilli(r.Time)
	n.earned = slices.DeleteFunc(n.earned, func(b *blocks.Entry) bool {
		isDue := !n.now.Before(b.Created.Time().Add(3 * time.Second))
		if isDue {
			n.set.Apply(b, n.now)
		}
		return isDue
	})
	defer func() {
		if err == nil {
			err = n.Flush(ctx)
		}
	}()
	attributes := conditions.NewRequest(r.Path, r.Method, r.Agent, r.Host)
	var values map[string]string
	if r.Account != "" {
		values = map[string]string{"account": r.Account}
	}
	request := attributes.WithValues(values).InScope(scopes.Of(&r, attributes))
	d, err := n.Check(ctx, gate.Check{Key: r.Key, Cost: r.Cost, Request: request})
	if err != nil || d.Outcome != gate.Allowed {
		return d.Outcome != gate.Allowed, err
	}
	for _, outcome := range r.AppendOutcomes(nil, answers.DefaultOutcomes(nil)) {
		answers := make([]gate.Reported, 1)
		if err := n.Report(ctx, []gate.Report{{Key: r.Key, Outcome: outcome, Request: attributes, Values: values}}, answers); err != nil {
			return false, err
		}
	}
	return false, nil
}

// drawPolicies draws policies that the store would accept.
func drawPolicies(t *rapid.T, firstID int64) []*rules.Policy {
	draw := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
	var all []*rules.Policy
	for i := range rapid.IntRange(1, 5).Draw(t, "policies") {
		p := &rules.Policy{ID: firstID + int64(i), Name: fmt.Sprint("p", i), Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}
		match, err := keys.Parser{}.Pattern(draw("match", "*", "ip:*", "ip:203.0.113.0/24", "ip:203.0.113.7", "token:*", "ip:2001:db8::/48"))
		if err != nil {
			t.Fatal(err)
		}
		p.Match = []keys.Pattern{match}
		texts := []string{draw("rule", "3/2s", "5/10s", "4/m", "0/s", "2/s", "3/m distinct path", "2/m distinct account")}
		if texts[0] == "3/2s" {
			texts = append(texts, "9/m")
		}
		if p.Rules, err = rules.ParseStack(texts); err != nil {
			t.Fatal(err)
		}
		p.Mode = rapid.SampledFrom([]rules.Mode{rules.Enforce, rules.Enforce, rules.Enforce, rules.Shadow, rules.Off}).Draw(t, "mode")
		switch draw("kind", "own", "conditional", "reported") {
		case "conditional":
			path := draw("path", "/login", "/a*", "*.php")
			if p.When, err = conditions.Parse(conditions.Texts{"path": {path}}); err != nil {
				t.Fatal(err)
			}
		case "reported":
			p.Outcome = draw("outcome", "not_found", "login_failed")
			p.Scope = draw("scope", "", "login")
		default:
			if p.Rules.Distinct() == "" {
				p.Algorithm = draw("algorithm", algorithms.TimestampLog, algorithms.FixedWindow, algorithms.GCRA, algorithms.LeakyBucket, algorithms.SlidingBuckets)
			}
		}
		if draw("also", "", "also") != "" {
			if p.Also, err = rules.ParseAlso([]string{draw("further key", "net:/24 6/m", "net:/48", "account 3/m", "account 2/m distinct path")}); err != nil {
				t.Fatal(err)
			}
		}
		if draw("escalation", "", "escalation") != "" {
			duration := time.Duration(rapid.IntRange(1, 300).Draw(t, "duration")) * time.Second
			p.Escalation = &rules.Escalation{Threshold: rapid.IntRange(1, 4).Draw(t, "threshold"), Window: time.Duration(rapid.IntRange(1, 4).Draw(t, "window")) * time.Minute,
				Duration: duration, MaxDuration: 5 * duration, Factor: 2, DecayAfter: time.Duration(rapid.IntRange(1, 10).Draw(t, "decay")) * time.Minute}
		}
		if p.Validate() == nil {
			all = append(all, p)
		}
	}
	return all
}

func drawRecords(t *rapid.T, at int64) []accesslog.Record {
	var all []accesslog.Record
	// A few keys that ask often are refused and blocked; many that wait are seldom.
	waits := []int64{0, 1, 300, 999, 1000, 1001, 3000, 5000, 59_999, 60_000}
	waits = waits[:rapid.SampledFrom([]int{len(waits), 8, 7, 4}).Draw(t, "waits")]
	from := []string{"ip:203.0.113.7", "ip:2001:db8::1", "token:a", "ip:203.0.113.8", "ip:198.51.100.1", "ip:2001:db8::2", "ip:2001:db8:0:1::1"}
	from = from[:rapid.SampledFrom([]int{len(from), 3, 2, 1}).Draw(t, "keys")]
	for range rapid.IntRange(1, 60).Draw(t, "records") {
		draw := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
		at += rapid.SampledFrom(waits).Draw(t, "wait")
		k, err := keys.Parser{}.Key(draw("key", from...))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, accesslog.Record{Time: at, Key: k, Cost: rapid.IntRange(1, 2).Draw(t, "cost"), Path: draw("path", "", "/", "/login", "/%61b", "/x.php?q", "/a/../login", "/c%2Fd"),
			Method: draw("method", "GET", "POST", ""), Account: draw("account", "", "alice", "bob"), Status: rapid.SampledFrom([]int{0, 200, 404, 401}).Draw(t, "status")})
	}
	return all
}

// checker is a test, or a round of one.
type checker interface {
	rapid.TB
	Cleanup(run func())
	Context() context.Context
}

// TestBacktestDecidesLikeTheGate compares a backtest with the gate and the escalations of a
// database: for one policy that is known to refuse and to block, and for random ones.
func TestBacktestDecidesLikeTheGate(t *testing.T) {
	scopes, err := accesslog.ParseScopes([]string{"/login=login"})
	if err != nil {
		t.Fatal(err)
	}
	f := storetest.OpenSQLite(t)
	// compare returns how many requests were refused, and how many of them by blocks.
	compare := func(t checker, policies []*rules.Policy, records []accesslog.Record) (refused int, blocked int64) {
		t.Helper()
		n := newServed(t, f.Offences, policies)
		i := 0
		report, err := backtest.Run(t.Context(), accesslog.Slice(records), backtest.Options{Plan: backtest.PoliciesPlan(policies), Scopes: scopes,
			Decided: func(r accesslog.Record, isRefused bool) {
				want, err := n.decide(t.Context(), r, scopes)
				if err != nil {
					t.Fatal(err)
				}
				if isRefused != want {
					t.Fatalf("record %d of %s: refused %v by the backtest, %v by the gate", i, r.Key, isRefused, want)
				}
				if i++; isRefused {
					refused++
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		return refused, report.Blocked
	}

	begin, firstID := int64(1_790_000_000_000), int64(1)
	known := policy(t, "known", rules.Enforce, "*", "2/m")
	known.ID = firstID
	known.Escalation = &rules.Escalation{Threshold: 1, Window: time.Minute, Duration: time.Minute, MaxDuration: time.Hour, Factor: 2, DecayAfter: time.Hour}
	var ask []accesslog.Record
	for i := range int64(10) {
		ask = append(ask, at(t, float64(begin/1000+i), "ip:203.0.113.7"))
	}
	if refused, blocked := compare(t, []*rules.Policy{known}, ask); refused != 8 || blocked == 0 || blocked == 8 {
		t.Errorf("%d were refused, %d of them by blocks; want 8, some of them by blocks", refused, blocked)
	}
	rapid.Check(t, func(t *rapid.T) {
		// No round has anything in common with an earlier one.
		begin, firstID = begin+(48*time.Hour).Milliseconds(), firstID+100
		compare(t, drawPolicies(t, firstID), drawRecords(t, begin))
	})
}
