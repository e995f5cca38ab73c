package metrics

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
)

// A node that stops and starts again goes on with what it had counted.
func TestHoldsOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "holds.json")
		p := &rules.Policy{Name: "tokens"}
		until := time.Now().Add(time.Minute)
		first := newMetrics()
		for range 3 {
			d := gate.Decision{Outcome: gate.Allowed, Policy: p}
			d.HeldUntil = until
			first.Record(&d)
		}
		if err := first.SaveHolds(file); err != nil {
			t.Fatal(err)
		}
		second := newMetrics()
		if err := second.LoadHolds(file); err != nil {
			t.Fatal(err)
		}
		second.RecordHold(&gate.HoldEnd{Policy: p, Result: "settled", Expires: until})
		if text := scrape(t, second); !strings.Contains(text, `stint_holds_open{policy="tokens"} 2`) {
			t.Errorf("after a restart:\n%s", text)
		}
		third := newMetrics() // the second was killed
		if err := third.LoadHolds(file); err != nil || strings.Contains(scrape(t, third), `stint_holds_open{policy="tokens"}`) {
			t.Errorf("what an earlier run saved is counted again: %v", err)
		}
	})
}

// What was saved of more policies than have metrics of their own is counted together.
func TestHoldsOfManyPoliciesAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "holds.json")
		first, second := newMetrics(), newMetrics()
		for i := range maxPolicies + 3 {
			first.openHolds.add(fmt.Sprint("p", i), time.Now().Add(time.Minute), 1)
		}
		if err := errors.Join(first.SaveHolds(file), second.LoadHolds(file)); err != nil {
			t.Fatal(err)
		}
		if n := len(second.openHolds.byPolicy); n != maxPolicies+1 {
			t.Errorf("the open holds of %d policies are gauged, want %d and one for all others", n, maxPolicies)
		}
		second.KeepPolicies(func(string) bool { return false })
		if n := len(second.openHolds.byPolicy); n != 1 {
			t.Errorf("the open holds of %d policies outlive these", n)
		}
	})
}

// Holds are open until they expire or are ended, also at another node than the one that took them.
func TestOpenHoldsAreGauged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newMetrics(), newMetrics()
		p, trial := &rules.Policy{Name: "tokens"}, &rules.Policy{Name: "trial"}
		start := time.Now()
		hold := func(m *Metrics, until time.Duration, replayed bool) {
			d := gate.Decision{Outcome: gate.Allowed, Policy: p}
			d.HeldUntil, d.Replayed = start.Add(until), replayed
			d.Shadow = &gate.Shadow{Policy: trial, Outcome: gate.Allowed}
			d.Shadow.HeldUntil = d.HeldUntil
			m.Record(&d)
		}
		hold(a, time.Minute, false)
		hold(a, time.Minute, true)
		hold(a, time.Minute, false)
		hold(b, 2*time.Minute, false)
		b.RecordHold(&gate.HoldEnd{Policy: p, Result: "settled", Over: 40, Expires: start.Add(time.Minute)})
		b.RecordHold(&gate.HoldEnd{Policy: p, Result: "extended", Was: start.Add(time.Minute), Expires: start.Add(time.Hour)})
		want := func(m *Metrics, lines ...string) {
			t.Helper()
			text := scrape(t, m)
			for _, line := range lines {
				if !strings.Contains(text, line+"\n") {
					t.Errorf("after %s the metrics have no line %s", time.Since(start), line)
				}
			}
		}
		want(a, `stint_holds_open{policy="tokens"} 2`, `stint_holds_expired_unsettled{policy="tokens"} 0`, `stint_holds_open{policy="trial"} 2`,
			`stint_holds_total{policy="trial",result="held"} 2`)
		want(b, `stint_holds_open{policy="tokens"} 0`, `stint_hold_overrun_total{policy="tokens"} 40`, `stint_holds_total{policy="tokens",result="over"} 1`)
		time.Sleep(2 * time.Minute) // only the extended one is still open, and one of b was never settled
		want(a, `stint_holds_open{policy="tokens"} 0`, `stint_holds_expired_unsettled{policy="tokens"} 2`)
		want(b, `stint_holds_open{policy="tokens"} 1`, `stint_holds_expired_unsettled{policy="tokens"} -1`)
		b.RecordHold(&gate.HoldEnd{Policy: p, Result: "expired", Expires: start.Add(2 * time.Minute)}) // settled too late
		want(b, `stint_holds_expired_unsettled{policy="tokens"} -2`)
		time.Sleep(2 * time.Hour)
		want(a, `stint_holds_expired_unsettled{policy="tokens"} 0`)
		hold(a, 3*time.Hour, false)
		if n := len(a.openHolds.byPolicy["tokens"].byEnd); n != 1 {
			t.Errorf("%d seconds are remembered, want 1", n)
		}
		a.KeepPolicies(func(string) bool { return false })
		if text := scrape(t, a); strings.Contains(text, `stint_holds_open{policy="tokens"}`) {
			t.Error("the metrics of a policy outlive it")
		}
	})
}
