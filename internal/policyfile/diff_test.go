package policyfile

import (
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
		lines := wire.Lines(changes[0].Fields, func(s string) string { return s })
		if want := []string{"- match: token:b*", "+ match: token:c*", "- mode: enforce", "+ mode: shadow"}; !reflect.DeepEqual(lines, want) {
			t.Errorf("got %q, want %q", lines, want)
		}
	}
}
