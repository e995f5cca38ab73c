package policyfile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// policiesFrom returns policies that stand as a file says.
func policiesFrom(t *testing.T, text string) []wire.Policy {
	t.Helper()
	var all []wire.Policy
	for _, p := range read(t, text) {
		all = append(all, wire.Policy{Name: p.Name, Match: p.Match, Rules: p.Rules, Mode: p.Mode,
			OnFailure: p.OnFailure, Algorithm: p.Algorithm, Options: p.Options, Escalation: p.Escalation, Version: 7})
	}
	return all
}

func TestAPlanSaysWhatEachPolicyNeeds(t *testing.T) {
	current := policiesFrom(t, `policies: [{name: a, match: ["token:b*", "token:a*"], rules: [1/s]}, {name: gone, match: ["x:*"], rules: []}, {name: same, match: ["*"], rules: [20/m]}]`)
	wanted := read(t, `policies: [{name: same, match: ["*"], rules: [20/60s]}, {name: new, match: ["y:*"], rules: [5/s]}, {name: a, match: ["token:a*", "token:c*"], rules: [1/s], mode: shadow}]`)
	for prune, want := range map[bool]string{
		false: "a replace, new create, same none", true: "a replace, new create, same none, gone delete",
	} {
		changes, err := Plan(current, wanted, prune)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range changes {
			got = append(got, c.Name+" "+c.Action)
			if (c.Version == nil) != (c.Action == wire.PolicyCreate) || (c.Before == nil) != (c.Action == wire.PolicyCreate) || (c.After == nil) != (c.Action == wire.PolicyDelete) {
				t.Errorf("%s: %+v", c.Name, c)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
		lines := Lines(changes[0].Fields, func(s string) string { return s })
		if want := []string{"- match: token:b*", "+ match: token:c*", "- mode: enforce", "+ mode: shadow"}; !reflect.DeepEqual(lines, want) {
			t.Errorf("got %q, want %q", lines, want)
		}
	}
}

func TestEveryFieldOfAPolicyIsCompared(t *testing.T) {
	base := read(t, canonicalFile)[1]
	if d := Diff(&base, &base); len(d) != 0 {
		t.Errorf("a policy differs from itself in %+v", d)
	}
	for name, change := range map[string]func(p *wire.PolicyRequest, e *wire.Escalation){
		"match":                   func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Match = []string{"*"} },
		"rules":                   func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Rules = nil },
		"mode":                    func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Mode = "off" },
		"on_failure":              func(p *wire.PolicyRequest, _ *wire.Escalation) { p.OnFailure = "allow" },
		"algorithm":               func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Algorithm = "other" },
		"options.burst":           func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Options.Burst = 50 },
		"options.count_refused":   func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Options.CountRefused = false },
		"options.window_start":    func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Options.WindowStart = "first_request" },
		"options.variant":         func(p *wire.PolicyRequest, _ *wire.Escalation) { p.Options.Variant = "queue" },
		"escalation.threshold":    func(_ *wire.PolicyRequest, e *wire.Escalation) { e.Threshold++ },
		"escalation.window":       func(_ *wire.PolicyRequest, e *wire.Escalation) { e.Window *= 2 },
		"escalation.duration":     func(_ *wire.PolicyRequest, e *wire.Escalation) { e.Duration *= 2 },
		"escalation.factor":       func(_ *wire.PolicyRequest, e *wire.Escalation) { e.Factor++ },
		"escalation.max_duration": func(_ *wire.PolicyRequest, e *wire.Escalation) { e.MaxDuration *= 2 },
		"escalation.decay_after":  func(_ *wire.PolicyRequest, e *wire.Escalation) { e.DecayAfter *= 2 },
	} {
		p, e := base, *base.Escalation
		p.Escalation = &e
		change(&p, &e)
		if d := Diff(&base, &p); len(d) != 1 || d[0].Field != name {
			t.Errorf("a change of %s shows as %+v", name, d)
		}
	}
	without := base
	without.Escalation = nil
	if d := Diff(&base, &without); len(d) != 6 || len(d[0].After) != 0 {
		t.Errorf("an escalation that goes shows as %s", fmt.Sprint(d))
	}
}
