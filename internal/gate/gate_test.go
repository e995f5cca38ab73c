package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

func TestRuleLimitsAndItsWaitIsExact(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "2/10s"))
	n.check(t, "ip:203.0.113.7")
	n.advance(time.Second)
	n.check(t, "ip:203.0.113.7")
	d := n.check(t, "ip:203.0.113.7")
	if d.Outcome != Limited || d.RetryAfter() != 9*time.Second || d.ID.IsZero() {
		t.Fatalf("got %s, wait %s, id %q", d.Outcome, d.RetryAfter(), d.ID)
	}
	if rule, found := d.DecidingRule(); !found || rule.String() != "2/10s" {
		t.Errorf("deciding rule %v, %v", rule, found)
	}
	n.advance(9*time.Second - time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Limited {
		t.Errorf("a millisecond early: %s", d.Outcome)
	}
	n.advance(time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Allowed || !d.ID.IsZero() {
		t.Errorf("at RetryAt: %s, id %q", d.Outcome, d.ID)
	}
}

func TestCheckAppliesExemptionThenBlockThenPolicy(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "0/s"))
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Limited || !d.Never || !d.RetryAt.IsZero() {
		t.Fatalf("0/s: %s, never %v, retry at %s", d.Outcome, d.Never, d.RetryAt)
	}
	n.block(t, "b1", "ip:203.0.113.0/24", n.clock().Add(time.Minute))
	d := n.check(t, "ip:203.0.113.7")
	if d.Outcome != Blocked || d.Block.ID != "b1" || d.RetryAfter() != time.Minute || d.Policy.Name != "default" {
		t.Fatalf("blocked: %+v", d)
	}
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e1", Pattern: pattern(t, "ip:203.0.113.7")}, n.clock())
	d = n.check(t, "ip:203.0.113.7")
	if d.Outcome != Allowed || d.Exemption.ID != "e1" || d.Block == nil {
		t.Errorf("exempt: %+v", d)
	}
}

func TestBlockedDecisionHasTheLatestExpiryOfAllMatchingBlocks(t *testing.T) {
	n := newNode(t)
	n.block(t, "short", "ip:203.0.113.7", n.clock().Add(time.Minute))
	n.block(t, "long", "ip:203.0.113.0/24", n.clock().Add(time.Hour))
	if d := n.check(t, "ip:203.0.113.7"); d.Block.ID != "long" || d.RetryAfter() != time.Hour {
		t.Errorf("got %s, %s", d.Block.ID, d.RetryAfter())
	}
	n.block(t, "good", "*", time.Time{})
	if d := n.check(t, "ip:203.0.113.7"); d.Block.ID != "good" || !d.Never || !d.RetryAt.IsZero() {
		t.Errorf("got %s, never %v", d.Block.ID, d.Never)
	}
}

func TestBlockEndsAtItsExpiryWithoutAJob(t *testing.T) {
	n := newNode(t)
	n.block(t, "b", "ip:203.0.113.7", n.clock().Add(time.Second))
	n.advance(time.Second - time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Blocked {
		t.Errorf("a millisecond before its end: %s", d.Outcome)
	}
	n.advance(time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Allowed {
		t.Errorf("at its end: %s", d.Outcome)
	}
}

func TestBlockRefusesEverySpellingOfAnAddress(t *testing.T) {
	n := newNode(t)
	n.block(t, "b4", "ip:203.0.113.7", time.Time{})
	n.block(t, "b6", "ip:2001:db8::1/128", time.Time{})
	for _, text := range []string{
		"ip:203.0.113.7", "ip:::ffff:203.0.113.7", "ip:::FFFF:CB00:7107", "ip:203.0.113.7/32",
		"ip:2001:db8::1", "ip:2001:DB8:0:0::1", "ip:2001:0db8::0001/128",
	} {
		if d := n.check(t, text); d.Outcome != Blocked {
			t.Errorf("%s is %s, want blocked", text, d.Outcome)
		}
	}
	if d := n.check(t, "ip:2001:db8::2"); d.Outcome != Allowed {
		t.Errorf("the address after the blocked /128 is %s, want allowed", d.Outcome)
	}
}

func TestMostSpecificOrNamedPolicyIsAsked(t *testing.T) {
	n := newNode(t,
		policy(t, 1, "default", "*", "100/s"),
		policy(t, 2, "tests", "token:test_*", "10/s"),
		policy(t, 3, "one", "token:test_1", "1/s"),
		policy(t, 4, "closed", "token:closed", "1/s", mode(rules.Off)))
	for text, want := range map[string]string{
		"token:test_1": "one", "token:test_2": "tests", "token:x": "default", "token:closed": "closed",
	} {
		if d := n.check(t, text); d.Policy.Name != want {
			t.Errorf("%s is decided by %s, want %s", text, d.Policy.Name, want)
		}
	}
	named := func(c *Check) { c.Policy = "one" }
	if d := n.check(t, "token:x", named); d.Policy.Name != "one" {
		t.Errorf("a check that names one is decided by %s", d.Policy.Name)
	}
	for range 3 {
		if d := n.check(t, "token:closed"); d.Outcome != Allowed {
			t.Errorf("an off policy: %s", d.Outcome)
		}
	}
	_, err := n.Check(t.Context(), Check{Key: key(t, "token:x"), Cost: 1, Policy: "none"})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("Check with an unknown policy: got %v, want Invalid", err)
	}
}

func TestWithoutAPolicyEverythingIsAllowed(t *testing.T) {
	n := newNode(t)
	if d := n.check(t, "token:x"); d.Outcome != Allowed || d.Policy != nil {
		t.Errorf("got %+v", d)
	}
}

func TestShadowPolicyHasALogOfItsOwn(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "3/m"), policy(t, 2, "trial", "*", "1/m", mode(rules.Shadow)))
	want := []struct{ real, shadow Outcome }{{Allowed, Allowed}, {Allowed, Limited}, {Allowed, Limited}, {Limited, Limited}}
	for i, w := range want {
		d := n.check(t, "token:x")
		if d.Outcome != w.real || d.Shadow == nil || d.Shadow.Outcome != w.shadow {
			t.Errorf("check %d: %s and %+v, want %v", i+1, d.Outcome, d.Shadow, w)
		}
		if refused := d.Shadow.Outcome == Limited; refused == d.Shadow.ID.IsZero() {
			t.Errorf("check %d: shadow id %q", i+1, d.Shadow.ID)
		}
	}
	n.advance(time.Minute)
	if d := n.check(t, "token:x"); d.Outcome != Allowed || d.Shadow.Outcome != Allowed {
		t.Errorf("a minute later: %s and %s", d.Outcome, d.Shadow.Outcome)
	}
}

func TestPeekChargesNothingAndIsNotCounted(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"))
	peek := func(c *Check) { c.Peek = true }
	for range 3 {
		if d := n.check(t, "token:x", peek); d.Outcome != Allowed {
			t.Fatalf("peek: %s", d.Outcome)
		}
	}
	n.check(t, "token:x")
	n.check(t, "token:x", peek)
	n.check(t, "token:x")
	if got := fmt.Sprint(n.recorded.outcomes); got != "[allowed limited]" {
		t.Errorf("recorded %s, want only the checks that are no peeks", got)
	}
}

func TestCostAboveALimitIsAFault(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "5/m 3/s"))
	_, err := n.Check(t.Context(), Check{Key: key(t, "token:x"), Cost: 4})
	var mistake *fault.Error
	if !errors.As(err, &mistake) || mistake.Field != "cost" || !strings.Contains(mistake.Message, "3") {
		t.Errorf("got %v", err)
	}
}

func TestNodeWithoutACatalogDecidesNothing(t *testing.T) {
	n := newNode(t)
	n.loaded = false
	if _, err := n.Check(t.Context(), Check{Key: key(t, "token:x"), Cost: 1}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestBatchAnswersEachCheckInOrderByItself(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "2/m"))
	n.block(t, "b", "token:bad", time.Time{})
	checks := []Check{
		{Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:bad"), Cost: 1},
		{Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:b"), Cost: 3}, {Key: key(t, "token:b"), Cost: 2},
	}
	decisions, errs := make([]Decision, len(checks)), make([]error, len(checks))
	n.Decide(t.Context(), checks, decisions, errs)
	want := []Outcome{Allowed, Allowed, Blocked, Limited, "", Allowed}
	for i, w := range want {
		if w == "" {
			if errs[i] == nil {
				t.Errorf("check %d returned no error", i)
			}
			continue
		}
		if errs[i] != nil || decisions[i].Outcome != w {
			t.Errorf("check %d: %s, %v; want %s", i, decisions[i].Outcome, errs[i], w)
		}
	}
}
