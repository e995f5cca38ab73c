package offences_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestEscalationLevelOfConditionalPolicyIsShown(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		limiting := storetest.NewPolicy(t, "limiting", "*", "100/1s")
		limiting.ID, limiting.Escalation = 3, storetest.Escalation()
		n.policy.Name, n.policy.Match, n.policy.Outcome = "guessing", limiting.Match, "login_failed"
		also, err := rules.ParseAlso([]string{"account 10/1h", "net:/24 10/1h"})
		if err != nil {
			t.Fatal(err)
		}
		n.policy.Also = also
		s := service(f, limiting, n.policy)
		s.Secret = func() []byte { return offenceSecret }
		shown := []string{"ip:203.0.113.7", "account:alice", "net:203.0.113.0/24"}
		for _, key := range shown {
			n.limited(key, 10)
		}
		n.flush()
		now := f.Clock.Now()
		report, err := s.Offenders(t.Context(), offences.Query{From: now.Add(-time.Hour), To: now.Add(time.Minute)})
		if err != nil || len(report.Rows) != 3 {
			t.Fatalf("%+v, %v", report, err)
		}
		levels := map[string]*offences.EscalationStatus{}
		for _, row := range report.Rows {
			levels[row.Key] = row.Escalation
		}
		for _, key := range shown {
			recent, err := s.RecentRefusals(t.Context(), key, now.Add(-time.Hour), now.Add(time.Minute), 1)
			if err != nil || len(recent) != 1 {
				t.Fatalf("%+v, %v", recent, err)
			}
			explained, err := s.ExplainRefusal(t.Context(), recent[0].ID.String())
			if err != nil {
				t.Fatal(err)
			}
			conditional, err := s.ConditionalEscalations(t.Context(), keytest.Key(t, key))
			if err != nil {
				t.Fatal(err)
			}
			under := conditional[n.policy.ID]
			if key == "net:203.0.113.0/24" { // which is never blocked
				if under != nil || explained.Escalation == nil || explained.Escalation.Policy != "limiting" {
					t.Errorf("%s: got the states %+v and %+v, want that of limiting only", key, under, explained.Escalation)
				}
				continue
			}
			for where, e := range map[string]*offences.EscalationStatus{"offenders": levels[key], "the refusal": explained.Escalation, "the key": under} {
				if e == nil || e.Policy != "guessing" || e.Level != 1 {
					t.Errorf("%s of %s shows %+v, want level 1 of guessing", where, key, e)
				}
			}
		}
	})
}

func TestOffenderShowsHighestEscalationLevel(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		limiting := storetest.NewPolicy(t, "limiting", "*", "100/1s")
		limiting.ID, limiting.Escalation = 3, storetest.Escalation()
		conditional := *n.policy
		conditional.Outcome = "login_failed"
		s := service(f, limiting, &conditional)
		n.limited("ip:203.0.113.7", 10)
		n.flush()
		n.policy = limiting // which the refusals by the block name
		n.record(gate.Blocked, "ip:203.0.113.7", 30, automaticBlocks(t, f.Store)[0])
		n.flush()
		now := f.Clock.Now()
		report, err := s.Offenders(t.Context(), offences.Query{From: now.Add(-time.Hour), To: now.Add(time.Minute)})
		if err != nil || len(report.Rows) != 1 || report.Rows[0].Kind != offences.Blocked || report.Rows[0].Policy != limiting.ID {
			t.Fatalf("%+v, %v", report, err)
		}
		if e := report.Rows[0].Escalation; e == nil || e.Policy != conditional.Name || e.Level != 1 {
			t.Errorf("got %+v, want level 1 of %s", e, conditional.Name)
		}
	})
}

func TestEscalationUnderIgnoresLevelOfNetwork(t *testing.T) {
	address, network := keytest.Key(t, "ip:203.0.113.7"), keytest.Key(t, "net:203.0.113.0/24")
	status := &offences.EscalationStatus{Level: 2}
	x := &admin.KeyExplanation{Explanation: &gate.Explanation{Key: address}, ConditionalEscalations: map[int64]*offences.EscalationStatus{7: status}}
	policy := &rules.Policy{ID: 7}
	if x.EscalationUnder(&gate.PolicyExplanation{Policy: policy}) != status || x.EscalationUnder(&gate.PolicyExplanation{Policy: policy, Derived: &address}) != status {
		t.Error("EscalationUnder does not return the state of the key")
	}
	if e := x.EscalationUnder(&gate.PolicyExplanation{Policy: policy, Derived: &network}); e != nil {
		t.Errorf("EscalationUnder(network) = %+v, want nil", e)
	}
}

func TestAllowedExactIsFalseWhenOtherPoliciesCountChecks(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		conditional := storetest.NewPolicy(t, "guessing", "ip:*", "5/1h")
		conditional.ID, conditional.Outcome = 8, "login_failed"
		watch := storetest.NewPolicy(t, "watch", "*", "5/1h")
		watch.ID, watch.Mode = 9, rules.Shadow
		s := service(f, n.policy, conditional, watch)
		n.allowed("ip:203.0.113.7", 5)
		n.limited("ip:203.0.113.7", 2)
		k, account := keytest.Key(t, "ip:203.0.113.7"), keytest.Key(t, "account:alice")
		answer := gate.Answer{At: f.Clock.Now()}
		n.recorder.Record(&gate.Decision{Check: gate.Check{Key: k, Cost: 1}, Outcome: gate.Limited, Policy: conditional, Answer: answer})
		n.recorder.Record(&gate.Decision{Check: gate.Check{Key: k, Cost: 1}, Outcome: gate.Allowed, Policy: n.policy, Answer: answer,
			Shadow: &gate.Shadow{Outcome: gate.Limited, Policy: watch, Answer: answer}})
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		now := f.Clock.Now()
		offenders := func(q offences.Query) *offences.OffenderReport {
			t.Helper()
			q.From, q.To = now.Add(-time.Hour), now
			r, err := s.Offenders(t.Context(), q)
			if err != nil || len(r.Rows) == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			return r
		}
		for _, q := range []offences.Query{{}, {Policy: n.policy.ID}, {Shadow: true}} {
			if r := offenders(q); !r.AllowedExact || r.Rows[0].Allowed != 6 {
				t.Errorf("%+v: %d allowed, exact %t, want 6, true", q, r.Rows[0].Allowed, r.AllowedExact)
			}
		}
		for _, q := range []offences.Query{{Policy: conditional.ID}, {Policy: watch.ID, Shadow: true}} {
			if r := offenders(q); r.AllowedExact {
				t.Errorf("%+v: %d allowed checks are exact, want not exact", q, r.Rows[0].Allowed)
			}
		}
		limited := answer
		limited.Derived = &account
		n.recorder.Record(&gate.Decision{Check: gate.Check{Key: k, Cost: 1}, Outcome: gate.Limited, Policy: n.policy, Answer: limited})
		n.flush()
		now = now.Add(time.Minute)
		if r := offenders(offences.Query{}); len(r.Rows) != 2 || r.AllowedExact {
			t.Errorf("with a further key: %d rows, exact %t, want 2, false", len(r.Rows), r.AllowedExact)
		}
	})
}
