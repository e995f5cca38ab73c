package gate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

// when returns a change of a policy that sets conditions on the path and the method.
func when(t testing.TB, path, method string) func(*rules.Policy) {
	t.Helper()
	lists := conditions.Texts{}
	if path != "" {
		lists["path"] = []string{path}
	}
	if method != "" {
		lists["method"] = []string{method}
	}
	w, err := conditions.Parse(lists)
	if err != nil {
		t.Fatal(err)
	}
	return func(p *rules.Policy) { p.When = w }
}

// withRequest returns a change of a check that sets its request.
func withRequest(method, path string) func(*Check) {
	return func(c *Check) { c.Request = conditions.NewRequest(path, method, "curl/8", "example.org") }
}

func TestPolicyWithConditionsAppliesInAddition(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m"), policy(t, 2, "login", "ip:*", "2/m", when(t, "/login", "POST")))
	const k = "ip:203.0.113.7"
	for range 2 {
		if d := n.check(t, k, withRequest("POST", "/login")); d.Outcome != Allowed || d.Policy.Name != "default" || len(d.Additional) != 1 {
			t.Fatalf("got %s by %v with %d additional decisions", d.Outcome, d.Policy, len(d.Additional))
		}
	}
	d := n.check(t, k, withRequest("POST", "/login"))
	if d.Outcome != Limited || d.Policy.Name != "login" || d.RetryAfter() != time.Minute || d.ID.IsZero() || len(d.Additional) != 0 {
		t.Fatalf("the third: %s by %s, wait %s", d.Outcome, d.Policy.Name, d.RetryAfter())
	}
	if used := n.used(t, k); used != 2 {
		t.Errorf("the default policy has used %d, want 2: a refused check charges nothing", used)
	}
	for _, other := range []func(*Check){withRequest("GET", "/login"), withRequest("POST", "/other"), func(*Check) {}} {
		if d := n.check(t, k, other); d.Outcome != Allowed || d.Additional != nil {
			t.Errorf("a request that does not meet the conditions: %s", d.Outcome)
		}
	}
	for range 5 {
		n.check(t, k)
	}
	// Both refuse: the answer is that of the policy that makes the caller wait longest.
	n.advance(30 * time.Second)
	if d := n.check(t, k, withRequest("POST", "/login")); d.Outcome != Limited || len(d.Additional) != 1 || d.RetryAfter() != 30*time.Second {
		t.Errorf("refused by both: got %s, retry after %s, %d additional decisions", d.Outcome, d.RetryAfter(), len(d.Additional))
	}
	x, err := n.Explain(t.Context(), key(t, k), "")
	if err != nil || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 2 || x.Conditional[0].Pattern.String() != "ip:*" {
		t.Errorf("the explanation has %+v, %v", x.Conditional, err)
	}
}

func TestTrapRefusesAndChargesNothing(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"), policy(t, 2, "trap", "*", "0/s", when(t, "/.env*", "")))
	const k = "ip:203.0.113.7"
	d := n.check(t, k, withRequest("GET", "/%2eenv.bak?x"))
	if d.Outcome != Limited || d.Policy.Name != "trap" || !d.Never || d.ID.IsZero() {
		t.Fatalf("%s by %s, never %v", d.Outcome, d.Policy.Name, d.Never)
	}
	if rule, found := d.DecidingRule(); !found || rule.Limit != 0 {
		t.Errorf("DecidingRule: got %v, want that of the trap", rule)
	}
	if d := n.check(t, k, withRequest("GET", "/")); d.Outcome != Allowed {
		t.Errorf("the check after the trapped one is %s, want allowed", d.Outcome)
	}
	if want := []Outcome{Limited, Allowed}; !slices.Equal(n.recorded.outcomes, want) {
		t.Errorf("recorded %v, want %v", n.recorded.outcomes, want)
	}
	if j := n.checkAll(t, []string{k, "token:a"}, withRequest("GET", "/.env")); j.Outcome != Limited || !j.Never || j.Refused().Policy.Name != "trap" {
		t.Errorf("several keys: %s", j.Outcome)
	}
	if j := n.checkAll(t, []string{"token:b", "token:c"}, withRequest("GET", "/x")); j.Outcome != Allowed {
		t.Errorf("several keys: %s", j.Outcome)
	}
}

func TestShadowPoliciesWithConditionsRefuseNothing(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m"), policy(t, 2, "trap", "*", "0/s", when(t, "/.env", ""), mode(rules.Shadow)),
		policy(t, 3, "few", "*", "1/m", when(t, "*", ""), mode(rules.Shadow)), policy(t, 4, "gone", "*", "0/s", when(t, "*", ""), mode(rules.Off)))
	d := n.check(t, "token:a", withRequest("GET", "/.env"))
	if d.Outcome != Allowed || d.Shadow == nil || d.Shadow.Policy.Name != "trap" || d.Shadow.Outcome != Limited || d.Shadow.ID.IsZero() {
		t.Fatalf("%s, shadow %+v", d.Outcome, d.Shadow)
	}
	if d := n.check(t, "token:a", withRequest("GET", "/other")); d.Outcome != Allowed || d.Shadow.Policy.Name != "few" || d.Shadow.Outcome != Limited {
		t.Errorf("%s, shadow %+v", d.Outcome, d.Shadow)
	}
}

func TestBatchDecidesConditionalChecksInOrder(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "3/m"), policy(t, 2, "login", "*", "2/m", when(t, "/login", "")))
	all := checks(t, slices.Repeat([]string{"token:a"}, 4), withRequest("POST", "/login"))
	all[1].Request = nil
	decisions, errs := make([]Decision, 4), make([]error, 4)
	n.Decide(t.Context(), all, decisions, errs)
	var got []Outcome
	for i := range decisions {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		got = append(got, decisions[i].Outcome)
	}
	if want := []Outcome{Allowed, Allowed, Allowed, Limited}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCancelUndoesAllPartsOfAConditionalReservation(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m"), policy(t, 2, "login", "*", "1/m", when(t, "/login", "")))
	wait := func(c *Check) { c.MaxWait = time.Hour }
	n.check(t, "token:a", withRequest("POST", "/login"))
	d := n.check(t, "token:a", withRequest("POST", "/login"), wait)
	if d.Outcome != Allowed || d.Delay != time.Minute || d.Handle == "" {
		t.Fatalf("%s after %s", d.Outcome, d.Delay)
	}
	if freed, err := n.Cancel(t.Context(), d.Handle); err != nil || !freed {
		t.Fatal(freed, err)
	}
	if d := n.check(t, "token:a", withRequest("POST", "/login"), wait); d.Delay != time.Minute {
		t.Errorf("after Cancel the delay is %s, want 1m", d.Delay)
	}
}

// Each part of a check of several keys says what its own policies say, also where another part is
// refused without the log.
func TestPartWithConditionsIsAskedBesideABlockedKey(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "9/m"), policy(t, 2, "login", "token:*", "1/m", when(t, "/login", "POST")))
	n.block(t, "b", "ip:203.0.113.1", n.clock().Add(time.Second))
	n.check(t, "token:a", withRequest("POST", "/login"))
	j := n.checkAll(t, []string{"ip:203.0.113.1", "token:a"}, withRequest("POST", "/login"))
	if j.Outcome != Blocked || j.RetryAfter() != time.Minute {
		t.Errorf("got %s for %s, want blocked for 1m", j.Outcome, j.RetryAfter())
	}
	if part := j.Decisions[1]; part.Outcome != Limited || part.Policy.Name != "login" {
		t.Errorf("the token is %s, want limited by login", part.Outcome)
	}
	n.advance(time.Minute)
	j = n.checkAll(t, []string{"ip:203.0.113.1", "token:a"}, withRequest("POST", "/login"))
	if j.Outcome != Allowed {
		t.Errorf("a minute later the check is %s", j.Outcome)
	}
}

func TestCostAboveAConditionalLimitIsRefused(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m"), policy(t, 2, "login", "*", "1/m", when(t, "/login", "")))
	c := Check{Key: key(t, "token:a"), Cost: 2}
	withRequest("POST", "/login")(&c)
	if _, err := n.Check(t.Context(), c); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v, want Invalid", err)
	}
}

// BenchmarkConditions compares a check without conditions with one under 200 conditions that its
// request does not meet.
func BenchmarkConditions(b *testing.B) {
	for _, count := range []int{0, 200} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			policies := []*rules.Policy{policy(b, 1, "default", "*", "100000/s")}
			for i := range count {
				policies = append(policies, policy(b, int64(i+2), fmt.Sprint("trap-", i), "*", "0/s", when(b, fmt.Sprintf("/trap-%d/*", i), "")))
			}
			n := newNode(b, policies...)
			n.recorder = Discard{}
			c := Check{Key: key(b, "ip:203.0.113.7"), Cost: 1}
			for b.Loop() {
				c.Request = conditions.NewRequest("/articles/2026/november", "GET", "Mozilla/5.0", "example.org")
				if d, err := n.Check(b.Context(), c); err != nil || d.Outcome != Allowed {
					b.Fatal(d.Outcome, err)
				}
				n.now.Add(1)
			}
		})
	}
}
