package rules_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
)

func inAttack(t *testing.T, change func(*wire.PolicyRequest)) (*rules.Policy, error) {
	t.Helper()
	d := wire.PolicyRequest{Name: "attack", Match: []string{"ip:*"}, When: wire.PolicyWhen{Attack: []string{"on"}}, Rules: []string{"2/1m"}}
	if change != nil {
		change(&d)
	}
	p, err := rules.FromDocument(&d, keys.Parser{}.Pattern)
	if p != nil {
		p.ID = 1
	}
	return p, err
}

func TestPoliciesForAttacksApplyOnlyInOne(t *testing.T) {
	p, err := inAttack(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again := p.Document(); len(again.When.Attack) != 1 || again.When.Attack[0] != "on" || len(again.When.Path) > 0 {
		t.Errorf("the document has the conditions %+v", again.When)
	}
	if text := p.DescribeApplies(); text != "Applies only while an attack goes on, in addition to the key's own policy." {
		t.Error(text)
	}
	if before, _ := inAttack(t, func(d *wire.PolicyRequest) { d.When.Attack = nil }); len(rules.Diff(before, p)) != 1 || rules.Diff(before, p)[0].Field != "when.attack" {
		t.Errorf("the difference is %v", rules.Diff(before, p))
	}
	who := rules.Subject{Key: keytest.Key(t, "ip:192.0.2.7")}
	calm := rules.NewSelector([]*rules.Policy{p})
	if got := calm.AppendConditional(nil, who, nil); len(got) > 0 || calm.CountsOwnValues() || !calm.Waits(p) || len(calm.InAttack()) != 1 || len(calm.Conditional(who)) != 1 {
		t.Errorf("without an attack %d policies apply", len(got))
	}
	if enforcing, _ := calm.Select(who); enforcing != nil {
		t.Error("it is the key's own policy without an attack")
	}
	attack := calm.During(true)
	if got := attack.AppendConditional(nil, who, nil); len(got) != 1 || attack.Waits(p) || attack.During(false) != attack || calm.During(false) != calm || len(attack.Conditional(who)) != 1 {
		t.Errorf("in an attack %d policies apply", len(got))
	}
	if other := rules.NewSelector(nil); other.During(true) != other {
		t.Error("without such policies there are two selectors")
	}
}

func TestPoliciesForAttacksThatWouldOutlastOneAreRefused(t *testing.T) {
	for want, change := range map[string]func(*wire.PolicyRequest){
		"when.attack must be on": func(d *wire.PolicyRequest) { d.When.Attack = []string{"off"} },
		"escalation": func(d *wire.PolicyRequest) {
			d.OnLimit = "block"
		},
		"with outcome":  func(d *wire.PolicyRequest) { d.Outcome = "login_failed" },
		"with evidence": func(d *wire.PolicyRequest) { d.Rules, d.Evidence = []string{"20 points/1h"}, []string{"5 path /x"} },
	} {
		if _, err := inAttack(t, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
