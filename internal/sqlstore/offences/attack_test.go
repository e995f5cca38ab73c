package offences_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

// In a flood larger than the memory of a node most offences lose their key: the key with most of
// the others is not the source of the attack.
func TestAttackHasNoSourceWhenMostOffencesLackKey(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Clock.Advance(50 * time.Second) // the minute has begun
		now := f.Clock.Now()
		minute := offences.MinuteOf(now.UnixMilli())
		flush := func(id string, rows ...offences.Offence) {
			t.Helper()
			b := &offences.Batch{ID: id, Node: "a", Offences: rows}
			for i := range rows {
				o := &rows[i]
				o.Minute, o.Policy, o.Kind = minute, 7, offences.Limited
				o.First.At, o.Last.At = minute, minute
				if o.Key != "" {
					o.MAC, o.RefusedBy = offences.NewRefusalIDMaker(offenceSecret).MAC(7, o.Key), "20/1m"
				}
				b.Totals = append(b.Totals, offences.Totals{Minute: minute, Policy: 7, Counts: offences.Counts{Limited: o.Count}})
			}
			if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: now}); err != nil {
				t.Fatal(err)
			}
		}
		rows := []offences.Offence{{Key: "ip:198.51.100.7", Count: 1500}}
		for i := range 10 {
			rows = append(rows, offences.Offence{Key: fmt.Sprintf("token:t%d", i), Count: 100})
		}
		flush("keys", rows...)
		a, err := service(f).Attack(t.Context())
		if err != nil || a.Source == nil || a.Source.Pattern.String() != "ip:198.51.100.7" || a.Source.Ratio != 0.6 {
			t.Fatalf("got %+v of %+v, %v", a.Source, a, err)
		}
		flush("flood", offences.Offence{RefusedBy: offences.Other, Count: 100_000})
		if a, err = service(f).Attack(t.Context()); err != nil || !a.IsActive() || a.Source != nil {
			t.Errorf("during a flood: got the source %+v of %+v, %v, want none", a.Source, a, err)
		}
	})
}

// A further key that a policy counts may be the victim: an account whose
// password is guessed is never offered to be blocked.
func TestAttackSourceSkipsFurtherKeysExceptNetworks(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		f.Clock.Advance(50 * time.Second)
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		n.limited("account:alice", 1000)
		n.limited("ip:198.51.100.7", 600)
		n.flush()
		attack := func() *offences.AttackSource {
			t.Helper()
			a, err := service(f, n.policy).Attack(t.Context())
			if err != nil || a.Source == nil {
				t.Fatalf("%+v, %v", a, err)
			}
			return a.Source
		}
		if s := attack(); s.Key != "account:alice" {
			t.Errorf("without further keys: got %+v, want account:alice", s)
		}
		n.policy.Also = rules.Also{{Name: "account"}}
		if s := attack(); s.Key != "ip:198.51.100.7" || s.Pattern.String() != s.Key || s.Ratio != 0.375 {
			t.Errorf("got %+v", s)
		}
		n.policy.Also = append(n.policy.Also, rules.Derived{Name: rules.Network, Bits: 24})
		n.limited("net:203.0.113.0/24", 2000)
		n.flush()
		if s := attack(); s.Key != "net:203.0.113.0/24" || s.Pattern.String() != "ip:203.0.113.0/24" || s.Keys != 0 || s.Rule != "20/1m" {
			t.Errorf("got %+v", s)
		}
		n.policy.Mode = rules.Off
		if s := attack(); s.Key != "net:203.0.113.0/24" {
			t.Errorf("with the policy off: got %+v, want the network", s)
		}
	})
}
