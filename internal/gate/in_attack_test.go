package gate

import (
	"testing"

	"github.com/stint-dev/stint/internal/rules"
)

// attackOnly makes a policy one that is only for attacks.
func attackOnly(p *rules.Policy) { p.InAttack = true }

func TestPoliciesForAttacksRefuseOnlyInOne(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "strict", "*", "1/m", attackOnly), policy(t, 3, "trap", "*", "0/s", when(t, "/search", ""), attackOnly))
	calm := n.selector
	n.selector = calm.During(false)
	const k = "ip:203.0.113.7"
	for range 3 {
		if d := n.check(t, k, withRequest("GET", "/search")); d.Outcome != Allowed || d.Additional != nil {
			t.Fatalf("without an attack: %s, %d additional decisions", d.Outcome, len(d.Additional))
		}
	}
	if d := n.check(t, k, func(c *Check) { c.Policy = "strict" }); d.Outcome != Allowed || d.Policy.Name != "default" {
		t.Errorf("a check that names the policy is decided by %s", d.Policy.Name)
	}
	x, err := n.Explain(t.Context(), key(t, k), "")
	if err != nil || x.Outcome != Allowed || len(x.Conditional) != 2 || x.Conditional[0].Rules[0].Used != 0 {
		t.Errorf("without an attack the explanation is %s with %d policies, %v", x.Outcome, len(x.Conditional), err)
	}

	n.selector = calm.During(true)
	if d := n.check(t, k); d.Outcome != Allowed {
		t.Errorf("the first check in the attack is %s", d.Outcome)
	}
	if d := n.check(t, k); d.Outcome != Limited || d.Policy.Name != "strict" {
		t.Errorf("the second check, which says nothing of its request, is %s", d.Outcome)
	}
	if d := n.check(t, "token:a", withRequest("GET", "/search")); d.Outcome != Limited || d.Policy.Name != "trap" {
		t.Errorf("the trap of attacks: %s", d.Outcome)
	}
	if x, err := n.Explain(t.Context(), key(t, k), ""); err != nil || x.Outcome != Limited {
		t.Errorf("in the attack the explanation is %s, %v", x.Outcome, err)
	}
	if d := n.check(t, "ip:198.51.100.7", func(c *Check) { c.Policy = "strict" }); d.Policy.Name != "strict" {
		t.Errorf("a check that names the policy in the attack is decided by %s", d.Policy.Name)
	}

	n.selector = calm.During(false)
	if d := n.check(t, k); d.Outcome != Allowed {
		t.Errorf("after the attack: %s", d.Outcome)
	}
}
