package rules

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
)

// fullPolicy returns a policy in which every changeable field has a value.
func fullPolicy(t *testing.T) *Policy {
	t.Helper()
	p := &Policy{
		Name: "search", Mode: Shadow, OnFailure: FailDeny, Algorithm: algorithms.SortedSetLog,
		Options:    algorithms.Options{CountRefused: true},
		Escalation: &Escalation{Threshold: 100, Window: 10 * time.Minute, Duration: time.Hour, Factor: 1.5, MaxDuration: 24 * time.Hour, DecayAfter: 7 * 24 * time.Hour},
	}
	var err error
	if p.Rules, err = ParseStack([]string{"5/10s", "20/1m"}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"token:b*", "token:a*"} {
		m, err := (keys.Parser{}).Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Match = append(p.Match, m)
	}
	return p
}

func TestEveryFieldOfAPolicyIsCompared(t *testing.T) {
	base := fullPolicy(t)
	for name, change := range map[string]func(p *Policy, e *Escalation){
		"match":                   func(p *Policy, _ *Escalation) { p.Match = p.Match[:1] },
		"rules":                   func(p *Policy, _ *Escalation) { p.Rules = nil },
		"mode":                    func(p *Policy, _ *Escalation) { p.Mode = Off },
		"on_failure":              func(p *Policy, _ *Escalation) { p.OnFailure = FailAllow },
		"algorithm":               func(p *Policy, _ *Escalation) { p.Algorithm = "other" },
		"options.burst":           func(p *Policy, _ *Escalation) { p.Options.Burst = 50 },
		"options.count_refused":   func(p *Policy, _ *Escalation) { p.Options.CountRefused = false },
		"options.window_start":    func(p *Policy, _ *Escalation) { p.Options.WindowStart = algorithms.WindowFirst },
		"options.variant":         func(p *Policy, _ *Escalation) { p.Options.Variant = algorithms.VariantQueue },
		"escalation.threshold":    func(_ *Policy, e *Escalation) { e.Threshold++ },
		"escalation.window":       func(_ *Policy, e *Escalation) { e.Window *= 2 },
		"escalation.duration":     func(_ *Policy, e *Escalation) { e.Duration *= 2 },
		"escalation.factor":       func(_ *Policy, e *Escalation) { e.Factor++ },
		"escalation.max_duration": func(_ *Policy, e *Escalation) { e.MaxDuration *= 2 },
		"escalation.decay_after":  func(_ *Policy, e *Escalation) { e.DecayAfter *= 2 },

		"escalation.challenge_levels": func(_ *Policy, e *Escalation) { e.ChallengeLevels++ },
	} {
		p, e := *base, *base.Escalation
		p.Escalation = &e
		change(&p, &e)
		if d := Diff(base, &p); len(d) != 1 || d[0].Field != name {
			t.Errorf("Diff after a change of %s: got %+v", name, d)
		}
	}
	without := *base
	without.Escalation = nil
	if d := Diff(base, &without); len(d) != 6 || len(d[0].After) != 0 {
		t.Errorf("Diff after the escalation is removed: got %+v", d)
	}
}

func TestEqualPoliciesHaveNoDifference(t *testing.T) {
	base := fullPolicy(t)
	same := *base
	same.Match = slices.Clone(base.Match)
	slices.Reverse(same.Match)
	same.Options.WindowStart = algorithms.WindowClock // the explicit default
	same.Version, same.ID, same.UpdatedBy = 7, 9, "ann"
	if d := Diff(base, &same); len(d) != 0 {
		t.Errorf("got %+v", d)
	}
	if d := Diff(nil, nil); len(d) != 0 {
		t.Errorf("got %+v", d)
	}
	if d := Diff(nil, base); len(d) != 12 || len(d[0].Before) != 0 || !slices.Equal(d[0].After, []string{"token:a*", "token:b*"}) {
		t.Errorf("Diff of a new policy: got %+v", d)
	}
}
