package offences_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func (*fixedView) Loaded() bool               { return true }
func (*fixedView) Settings() catalog.Settings { return catalog.Settings{Secret: offenceSecret} }

// websitePolicies returns the policies of the preset website, with ids as of a database.
func websitePolicies(t *testing.T) []*rules.Policy {
	t.Helper()
	preset, found := presets.Find("website")
	if !found {
		t.Fatal("there is no preset website")
	}
	var policies []*rules.Policy
	for i, p := range preset.Policies {
		numbered := *p
		numbered.ID = int64(20 + i)
		policies = append(policies, &numbered)
	}
	return policies
}

func TestProposeUsesOutcomeReports(t *testing.T) {
	for name, c := range map[string]struct {
		attempts, addresses int // of failed logins, spread evenly
		isChecked           bool
		members             int64
		figures             string
	}{
		"few from each address":     {120, 40, false, 40, "each at least once; 100% of the checks of the range were refused"},
		"many from each address":    {8 * 24, 8, false, 8, "each at least 2 times; 100% of the checks of the range were refused"},
		"with checks, too":          {120, 40, true, 40, "each at least once; 33% of the checks of the range were refused"},
		"from too few addresses":    {120, 3, false, 0, ""},
		"below the limits":          {60, 30, false, 0, ""},
		"among many allowed checks": {70, 35, true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
				policies := websitePolicies(t)
				n := newCounting(t, f.Offences, f.Clock, "a", nil)
				s := service(f, policies...)
				g := gate.New(gate.Options{View: s.View.(*fixedView), Log: memlog.New(memlog.Options{Now: f.Clock.Now}), Recorder: n.recorder, Reports: n.recorder, Now: f.Clock.Now})
				for i := range c.attempts {
					k := keytest.Key(t, fmt.Sprintf("ip:203.0.113.%d", 1+i%c.addresses))
					if c.isChecked { // without a scope
						var decisions [1]gate.Decision
						var errs [1]error
						if g.Decide(t.Context(), []gate.Check{{Key: k, Cost: 1}}, decisions[:], errs[:]); errs[0] != nil || decisions[0].Outcome != gate.Allowed {
							t.Fatalf("%+v, %v", decisions[0], errs[0])
						}
					}
					var answers [1]gate.Reported
					if err := g.Report(t.Context(), []gate.Report{{Key: k, Outcome: "login_failed"}}, answers[:]); err != nil {
						t.Fatal(err)
					}
				}
				f.Clock.Advance(2 * time.Minute)
				n.flush()
				made, err := s.Proposals.Propose(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if c.members == 0 {
					if len(made) > 0 {
						t.Errorf("proposed %s, want no proposal", made[0].Evidence.String())
					}
					return
				}
				if len(made) != 1 || made[0].Pattern.String() != "ip:203.0.113.0/24" {
					t.Fatalf("proposed %+v", made)
				}
				if e := made[0].Evidence; e.OffendedCount != c.members || !strings.Contains(e.String(), c.figures) {
					t.Errorf("got the evidence %s, want %d members and %q", e.String(), c.members, c.figures)
				}
			})
		})
	}
}

func TestReportOverSeveralLimitsCountsAsOneRefusal(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, websitePolicies(t)...)
		g := gate.New(gate.Options{View: s.View.(*fixedView), Log: memlog.New(memlog.Options{Now: f.Clock.Now}), Recorder: n.recorder, Reports: n.recorder, Now: f.Clock.Now})
		reports := make([]gate.Report, 65) // 55 beyond the limit of one policy, of which 45 are beyond that of a second and five beyond that of a third
		for i := range reports {
			reports[i] = gate.Report{Key: keytest.Key(t, "ip:203.0.113.7"), Outcome: "login_failed"}
		}
		if err := g.Report(t.Context(), reports, make([]gate.Reported, len(reports))); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		now := f.Clock.Now()
		seen, err := s.Seen(t.Context(), keytest.Pattern(t, "ip:203.0.113.0/24"), now.Add(-time.Hour), now)
		if err != nil || seen.Keys != 1 || seen.Offenders != 1 || seen.Refused != 55 || seen.Allowed != 0 {
			t.Errorf("Seen() = %+v, %v", seen, err)
		}
		if got := ranked(t, f.Store, offences.Query{From: now.Add(-time.Hour), To: now}); got["ip:203.0.113.7"] != 105 {
			t.Errorf("got the offences %v, want 105 of ip:203.0.113.7", got)
		}
	})
}
