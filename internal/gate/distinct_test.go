package gate

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

// withReportValue returns a change of a report that sets a value.
func withReportValue(name, value string) func(*Report) {
	return func(r *Report) { r.Values = map[string]string{name: value} }
}

// withPath returns a change of a check that sets the path of its request.
func withPath(path string) func(*Check) {
	return func(c *Check) { c.Request = conditions.NewRequest(path, "", "", "") }
}

func TestDistinctRulesCountValuesOfReports(t *testing.T) {
	const k = "ip:203.0.113.7"
	onEveryLog(t, func(t *testing.T, n *node) {
		for range 5 { // the same account counts once
			wantReported(t, n.report(t, k, "login_failed", withReportValue("account", "alice")), Charged)
		}
		if d := n.check(t, k); d.Outcome != Allowed {
			t.Errorf("after one account: %s", d.Outcome)
		}
		r := n.report(t, k, "login_failed", withReportValue("account", "bob"))
		wantReported(t, r, Charged)
		if p := r.Policies[0]; !p.IsFull() || !p.ID.IsZero() {
			t.Errorf("after two accounts: %+v", p)
		}
		d := n.check(t, k)
		if d.Outcome != Limited || d.Policy.Name != "stuffing" || d.RetryAfter() != 24*time.Hour {
			t.Errorf("%s by %v, wait %s", d.Outcome, d.Policy, d.RetryAfter())
		}
		n.advance(time.Hour)
		r = n.report(t, k, "login_failed", withReportValue("account", "carol"))
		if wantReported(t, r, Full); r.Policies[0].ID.IsZero() {
			t.Error("a value beyond the limit has no refusal id")
		}
		wantReported(t, n.report(t, k, "login_failed", withReportValue("account", "alice")), Charged) // it already counts
		if r = n.report(t, k, "login_failed"); len(r.Policies) != 0 || r.Unsaid != "account" || !r.IsCounted {
			t.Errorf("a report without the value: %+v", r)
		}
		n.advance(23 * time.Hour)
		if d := n.check(t, k); d.Outcome != Allowed {
			t.Errorf("after bob has left the window: %s", d.Outcome)
		}
		x, err := n.Explain(t.Context(), key(t, k), "")
		if err != nil || x.Outcome != Allowed || x.Conditional[0].Rules[0].Used != 1 || len(x.Conditional[0].Timestamps) != 1 {
			t.Errorf("the explanation has %+v, %v", x, err)
		}
	}, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "stuffing", "ip:*", "9/m", counts("login_failed"), distinct(t, "2/d distinct account")))
}

// distinct returns a change of a policy that sets distinct rules.
func distinct(t testing.TB, texts ...string) func(*rules.Policy) {
	return func(p *rules.Policy) {
		var err error
		if p.Rules, err = rules.ParseStack(texts); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDistinctRulesCountPathsOfChecks(t *testing.T) {
	const k = "ip:203.0.113.7"
	onEveryLog(t, func(t *testing.T, n *node) {
		for _, path := range []string{"/a", "/b", "/x/../a", "//b"} {
			if d := n.check(t, k, withPath(path)); d.Outcome != Allowed {
				t.Errorf("%s is %s", path, d.Outcome)
			}
		}
		if d := n.check(t, k, withPath("/c")); d.Outcome != Limited || d.Policy.Name != "paths" {
			t.Errorf("a third path is %s by %s", d.Outcome, d.Policy.Name)
		}
		if used := n.used(t, k); used != 4 {
			t.Errorf("the key's own policy has %d requests, want 4", used)
		}
		if d := n.check(t, k); d.Outcome != Allowed {
			t.Errorf("a check without a path is %s, want allowed", d.Outcome)
		}
		if d := n.check(t, k, withPath("/a"), func(c *Check) { c.Cost = 7 }); d.Outcome != Allowed {
			t.Errorf("a known path at a cost of 7 is %s", d.Outcome)
		}
		_, err := n.Check(t.Context(), Check{Key: key(t, k), Cost: 1, MaxWait: time.Second, Request: conditions.NewRequest("/a", "", "", "")})
		var f *fault.Error
		if !errors.As(err, &f) || f.Field != "max_wait" {
			t.Errorf("Check with MaxWait: got %v, want a fault of max_wait", err)
		}
	}, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "paths", "ip:*", "9/m", distinct(t, "2/h distinct path", "3/d distinct path")))
}

func TestDistinctRulesCountValuesOfChecks(t *testing.T) {
	const k = "ip:203.0.113.7"
	account := func(name string) func(*Check) {
		return func(c *Check) {
			c.Request = conditions.NewRequest("/login", "POST", "", "").WithValues(map[string]string{"account": name})
		}
	}
	onEveryLog(t, func(t *testing.T, n *node) {
		for _, name := range []string{"alice", "bob", "alice"} {
			if d := n.check(t, k, account(name)); d.Outcome != Allowed {
				t.Errorf("%s is %s", name, d.Outcome)
			}
		}
		d := n.check(t, k, account("carol"))
		if d.Outcome != Limited || d.Policy.Name != "accounts" || !d.Policy.DependsOnRequest() {
			t.Errorf("a third account is %s by %s", d.Outcome, d.Policy.Name)
		}
		for _, value := range d.Check.Meta {
			if value == "carol" {
				t.Error("the meta of the refusal contains the value")
			}
		}
		if d := n.check(t, k, withPath("/login")); d.Outcome != Allowed {
			t.Errorf("a check without an account is %s, want allowed", d.Outcome)
		}
	}, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "accounts", "ip:*", "9/m", distinct(t, "2/h distinct account")))
}

func TestStoredDistinctValuesAreBounded(t *testing.T) {
	n := newNode(t, policy(t, 1, "misses", "ip:*", "9/m", counts("not_found"), distinct(t, "15/d distinct path")))
	const k = "ip:203.0.113.7"
	reports, answers := make([]Report, 10_000), make([]Reported, 10_000)
	for i := range reports {
		reports[i] = Report{Key: key(t, k), Outcome: "not_found", Request: conditions.NewRequest(fmt.Sprint("/", i), "", "", "")}
	}
	if err := n.Report(t.Context(), reports, answers); err != nil {
		t.Fatal(err)
	}
	x, err := n.Explain(t.Context(), key(t, k), "")
	if err != nil || len(x.Conditional[0].Timestamps) != 15 {
		t.Errorf("the explanation has %+v, %v", x.Conditional[0], err)
	}
}

func TestPolicyWithAScopeRefusesOnlyChecksOfTheScope(t *testing.T) {
	const k = "ip:203.0.113.7"
	scope := func(name string) func(*Check) {
		return func(c *Check) { c.Request = conditions.NewRequest("/login", "", "", "").InScope(name) }
	}
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "guessing", "ip:*", "1/m", counts("login_failed"),
		func(p *rules.Policy) { p.Scope = "login" }))
	wantReported(t, n.report(t, k, "login_failed"), Charged)
	for name, want := range map[string]Outcome{"login": Limited, "search": Allowed, "": Allowed} {
		if d := n.check(t, k, scope(name)); d.Outcome != want || want == Limited && !d.Policy.DependsOnRequest() {
			t.Errorf("in the scope %q: %s by %s", name, d.Outcome, d.Policy.Name)
		}
	}
	if d := n.check(t, k); d.Outcome != Allowed {
		t.Errorf("without a request: %s", d.Outcome)
	}
	if d := n.check(t, k, func(c *Check) { c.Request = (*conditions.Request)(nil).InScope("login") }); d.Outcome != Limited {
		t.Errorf("with nothing but the scope: %s", d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, k), "")
	if err != nil || x.Outcome != Allowed || x.Conditional[0].Allowed {
		t.Errorf("the explanation has %+v, %v", x, err)
	}
}
