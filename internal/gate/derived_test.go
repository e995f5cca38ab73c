package gate

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// also returns a change of a policy that adds further keys.
func also(t testing.TB, texts ...string) func(*rules.Policy) {
	t.Helper()
	all, err := rules.ParseAlso(texts)
	if err != nil {
		t.Fatal(err)
	}
	return func(p *rules.Policy) { p.Also = all }
}

// withAccount returns a change of a check that sets its request, with an account.
func withAccount(name string) func(*Check) {
	return func(c *Check) {
		c.Request = conditions.NewRequest("/login", "POST", "", "").WithValues(map[string]string{"account": name})
	}
}

func TestChecksAlsoCountForFurtherKeys(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		for _, k := range []string{"ip:203.0.113.1", "ip:203.0.113.2", "ip:203.0.113.3"} {
			if d := n.check(t, k); d.Outcome != Allowed || d.Derived != nil {
				t.Fatalf("%s is %s", k, d.Outcome)
			}
		}
		d := n.check(t, "ip:203.0.113.4")
		if d.Outcome != Limited || d.Policy.Name != "default" || d.Derived == nil || d.Derived.String() != "net:203.0.113.0/24" || d.Policy.DependsOnRequest() {
			t.Fatalf("the fourth of the network: %s of %v", d.Outcome, d.Derived)
		}
		if rule, _ := d.DecidingRule(); rule.String() != "3/1m" || d.RetryAfter() != time.Minute || d.ID.IsZero() {
			t.Errorf("refused by %s for %s, id %q", rule, d.RetryAfter(), d.ID)
		}
		if used := n.used(t, "ip:203.0.113.4"); used != 0 {
			t.Errorf("the address has used %d although its network is full, want 0", used)
		}
		if d := n.check(t, "ip:198.51.100.4"); d.Outcome != Allowed {
			t.Errorf("another network is %s", d.Outcome)
		}
		if d := n.check(t, "token:a"); d.Outcome != Allowed || len(d.Additional) != 0 {
			t.Errorf("a key without a network is %s", d.Outcome)
		}
		// Two keys of one request that derive the same key charge it once.
		if j := n.checkAll(t, []string{"ip:192.0.2.1", "ip:192.0.2.2"}); j.Outcome != Allowed {
			t.Errorf("two addresses of one network: %s", j.Outcome)
		}
		x, err := n.Explain(t.Context(), key(t, "ip:203.0.113.9"), "")
		if err != nil || x.Outcome != Limited || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 3 || x.Conditional[0].Derived.String() != "net:203.0.113.0/24" {
			t.Errorf("the explanation of another address of the network: %+v, %v", x, err)
		}
		x, err = n.Explain(t.Context(), key(t, "net:203.0.113.0/24"), "")
		if err != nil || x.Outcome != Allowed || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 3 {
			t.Errorf("the explanation of the network: %+v, %v", x, err)
		}
		n.block(t, "net", "net:192.0.2.0/24", time.Time{})
		if d := n.check(t, "ip:192.0.2.3"); d.Outcome != Blocked || d.Block == nil || d.Derived == nil {
			t.Errorf("under a block of the network: %s", d.Outcome)
		}
	}, policy(t, 1, "default", "*", "10/m", also(t, "net:/24 3/m", "net:/48 3/m")))
}

func TestReservationIncludesFurtherKeys(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		n.check(t, "ip:203.0.113.1")
		n.check(t, "ip:203.0.113.2") // the network is full
		first := n.check(t, "ip:203.0.113.3", waits(5*time.Minute), named("first"))
		if first.Outcome != Allowed || first.Delay != time.Minute || first.Handle == "" || n.used(t, "ip:203.0.113.3") != 1 {
			t.Fatalf("the third of the network: %s in %s, handle %q, used %d", first.Outcome, first.Delay, first.Handle, n.used(t, "ip:203.0.113.3"))
		}
		again := n.check(t, "ip:203.0.113.3", waits(5*time.Minute), named("first"))
		if !again.Replayed || !again.ReservedAt.Equal(first.ReservedAt) || again.Handle != first.Handle {
			t.Errorf("the same again: replayed %v, in %s", again.Replayed, again.Delay)
		}
		second := n.check(t, "ip:203.0.113.4", waits(5*time.Minute))
		third := n.check(t, "ip:203.0.113.5", waits(5*time.Minute))
		if second.Delay != time.Minute || third.Delay != 2*time.Minute {
			t.Fatalf("then %s and %s", second.Delay, third.Delay)
		}
		if d := n.check(t, "ip:203.0.113.6", waits(time.Second)); d.Outcome != Limited || d.Derived == nil || n.used(t, "ip:203.0.113.6") != 0 {
			t.Errorf("beyond MaxWait: got %s by %v, want limited by the network", d.Outcome, d.Derived)
		}
		n.wantCancelled(t, third.Handle, true)
		n.wantCancelled(t, third.Handle, false)
		if used := n.used(t, "ip:203.0.113.5"); used != 0 {
			t.Errorf("after Cancel the address has used %d, want 0", used)
		}
		if d := n.check(t, "ip:203.0.113.7", waits(5*time.Minute), peeks); d.Delay != 2*time.Minute {
			t.Errorf("after Cancel the delay for the network is %s, want 2m", d.Delay)
		}
	}, policy(t, 1, "default", "*", "10/h", also(t, "net:/24 2/m")))
}

// TestReservationOfSeveralCostsIsCancelledWhole reserves a further key of two keys whose costs
// differ. It is charged the larger one.
func TestReservationOfSeveralCostsIsCancelledWhole(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		n.check(t, "ip:203.0.113.1")
		n.check(t, "ip:203.0.113.2") // the network is full
		ask := []Check{{Key: key(t, "ip:203.0.113.3"), Cost: 1, MaxWait: time.Hour}, {Key: key(t, "ip:203.0.113.4"), Cost: 2, MaxWait: time.Hour}}
		reserved, err := n.DecideAll(t.Context(), ask)
		if err != nil || reserved.Outcome != Allowed || reserved.Delay != time.Minute {
			t.Fatalf("got %s in %s, %v; want a reservation in 1m", reserved.Outcome, reserved.Delay, err)
		}
		n.wantCancelled(t, reserved.Handle, true)
		if d := n.check(t, "ip:203.0.113.7", waits(time.Hour), peeks); d.Delay != time.Minute {
			t.Errorf("after Cancel the delay for the network is %s, want 1m", d.Delay)
		}
	}, policy(t, 1, "default", "*", "10/h", also(t, "net:/24 2/m")))
}

func TestClusterCannotReserveFurtherKeys(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/h", also(t, "net:/24 2/m")), policy(t, 2, "guessing", "user:*", "9/h", counts("login_failed"), also(t, "account 9/h")))
	n.Gate = New(Options{View: n, Log: slotLog{n.log}, Now: n.clock})
	if _, err := n.Check(t.Context(), Check{Key: key(t, "ip:203.0.113.1"), Cost: 1, MaxWait: time.Second}); fieldOf(err) != "max_wait" || !strings.Contains(err.Error(), "Cluster") {
		t.Errorf("Check with MaxWait: got %v, want a fault of max_wait", err)
	}
	if d := n.check(t, "ip:203.0.113.1"); d.Outcome != Allowed || n.used(t, "ip:203.0.113.1") != 1 {
		t.Errorf("Check without MaxWait: got %s, used %d", d.Outcome, n.used(t, "ip:203.0.113.1"))
	}
	// Reports charge the account; checks do not.
	if d := n.check(t, "user:x", withAccount("alice"), waits(time.Second)); d.Outcome != Allowed {
		t.Errorf("with a policy with an outcome: got %s, want allowed", d.Outcome)
	}
}

// slotLog is a log in which the logs of different keys are in different slots, and those of the
// same key in the same slot.
type slotLog struct{ timestamplog.Log }

func (l slotLog) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	for i := range requests {
		if requests[i].Key != requests[0].Key {
			return timestamplog.ErrCrossSlot
		}
	}
	return l.Log.DecideAll(ctx, requests, results)
}

func TestClusterReservesTheOwnPoliciesAsOne(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"), policy(t, 2, "posts", "*", "5/30s", when(t, "", "POST")),
		policy(t, 3, "guessing", "user:*", "1/h", counts("login_failed"), also(t, "account 1/h")))
	n.Gate = New(Options{View: n, Log: slotLog{n.log}, Now: n.clock})
	posts := func(account string) func(*Check) {
		return func(c *Check) {
			c.Request = conditions.NewRequest("/login", "POST", "", "").WithValues(map[string]string{"account": account})
		}
	}
	usedPosts := func() int {
		t.Helper()
		x, err := n.Explain(t.Context(), key(t, "user:x"), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range x.Conditional {
			if part.Policy.Name == "posts" {
				return part.Rules[0].Used
			}
		}
		t.Fatal("no policy posts")
		return 0
	}
	n.check(t, "user:x") // the key is full
	d := n.check(t, "user:x", posts("alice"), waits(2*time.Minute))
	if d.Outcome != Allowed || d.Delay != time.Minute || d.Handle == "" {
		t.Fatalf("the second is %s in %s, handle %q", d.Outcome, d.Delay, d.Handle)
	}
	n.wantCancelled(t, d.Handle, true)
	if used := usedPosts(); used != 0 {
		t.Errorf("after Cancel posts has used %d, want 0", used)
	}
	d = n.check(t, "user:x", posts("alice"), waits(2*time.Minute))
	for _, a := range d.Additional {
		if a.Policy != nil && a.Policy.Name == "posts" && !a.ReservedAt.Equal(d.ReservedAt) {
			t.Errorf("posts is reserved for %s, the key for %s", a.ReservedAt, d.ReservedAt)
		}
	}
	n.wantCancelled(t, d.Handle, true)
	// A refusal because of a further key charges nothing.
	n.report(t, "user:y", "login_failed", withReportValue("account", "alice"))
	if d := n.check(t, "user:x", posts("alice"), waits(2*time.Minute)); d.Outcome != Limited || d.Derived == nil || d.Handle != "" {
		t.Errorf("of the full account: %s by %v, handle %q", d.Outcome, d.Derived, d.Handle)
	}
	if n.used(t, "user:x") != 1 || usedPosts() != 0 {
		t.Errorf("after a refused check the key has used %d and posts %d, want 1 and 0", n.used(t, "user:x"), usedPosts())
	}
	if d := n.check(t, "user:x", posts("bob"), waits(2*time.Minute)); d.Outcome != Allowed || d.Delay != time.Minute {
		t.Errorf("of another account: %s in %s", d.Outcome, d.Delay)
	}
}

func TestHandleBoundsTheSizeOfFurtherKeys(t *testing.T) {
	values := map[string]string{}
	var texts []string
	for i := range 4 {
		name := strings.Repeat("v", 63) + string(rune('a'+i))
		values[name] = strings.Repeat("x", 128)
		texts = append(texts, name)
	}
	n := newNode(t, policy(t, 1, "default", "*", "1/m", also(t, texts...)), policy(t, 2, "posts", "*", "9/m", when(t, "", "POST"), also(t, texts[0])))
	request := conditions.NewRequest("/", "POST", "", "").WithValues(values)
	_, err := n.Check(t.Context(), Check{Key: key(t, "token:a"), Cost: 1, MaxWait: time.Second, Request: request})
	if fieldOf(err) != "max_wait" {
		t.Errorf("965 bytes of further keys: got %v, want a fault of max_wait", err)
	}
	if d := n.check(t, "token:a", func(c *Check) { c.Request = request }); d.Outcome != Allowed {
		t.Errorf("without a wait it is %s", d.Outcome)
	}
	others := maps.Clone(values)
	for name := range others {
		others[name] = strings.Repeat("y", 128)
	}
	if d := n.check(t, "token:b", cancellable, func(c *Check) { c.Request = conditions.NewRequest("/", "POST", "", "").WithValues(others) }); d.Outcome != Allowed || d.Handle != "" {
		t.Errorf("a cancellable check is %s and has the handle %q, want none", d.Outcome, d.Handle)
	}
}

// A key may be a further key of a policy and also be selected by it. A check of the selected key,
// under its shorter rule, must not drop entries that the longer rule of the further key needs.
func TestFurtherKeyCountsSeparatelyFromChecksOfTheSameKey(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		for range 3 {
			if d := n.check(t, "ip:203.0.113.1", withAccount("alice")); d.Outcome != Allowed {
				t.Fatalf("a check of the account is %s", d.Outcome)
			}
			n.advance(2 * time.Second)
			n.check(t, "account:alice")
			n.advance(2 * time.Second)
		}
		if d := n.check(t, "ip:203.0.113.1", withAccount("alice")); d.Outcome != Limited || d.Derived == nil {
			t.Errorf("the fourth of the account is %s", d.Outcome)
		}
		// Check the key itself with the same value in the request, and with an address.
		if d := n.check(t, "account:bob", withAccount("bob")); d.Outcome != Allowed {
			t.Errorf("account:bob is %s", d.Outcome)
		}
		n.advance(2 * time.Second)
		if j := n.checkAll(t, []string{"ip:203.0.113.1", "account:bob"}, withAccount("bob")); j.Outcome != Allowed {
			t.Errorf("both are %s", j.Outcome)
		}
		x, err := n.Explain(t.Context(), key(t, "account:bob"), "")
		if err != nil || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 2 || x.Enforcing.Rules[0].Used != 1 {
			t.Errorf("the explanation of account:bob: %+v, %v", x, err)
		}
	}, policy(t, 1, "default", "*", "1/s", also(t, "account 3/d")))
}

func TestShadowPolicyCountsASharedFurtherKeyOnce(t *testing.T) {
	n := newNode(t, policy(t, 1, "watching", "ip:*", "9/m", also(t, "net:/24"), mode(rules.Shadow)))
	n.checkAll(t, []string{"ip:192.0.2.1", "ip:192.0.2.2"})
	x, err := n.Explain(t.Context(), key(t, "net:192.0.2.0/24"), "")
	if err != nil || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 1 {
		t.Errorf("the explanation of the network: %+v, %v", x, err)
	}
}

func TestRefusalByAnotherPolicyIsNotAttributedToTheOwnLimit(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "9/m", also(t, "account 1/h")))
	n.put(t, &profiles.Profile{Key: "user:x", Limit: &profiles.Limit{Rules: stack(t, "2/h"), Reason: "launch"}})
	if d := n.check(t, "user:x", withAccount("alice")); d.Outcome != Allowed || d.OwnLimit == nil {
		t.Fatalf("the first is %s, its own limit %v", d.Outcome, d.OwnLimit)
	}
	if d := n.check(t, "user:x", withAccount("alice")); d.Outcome != Limited || d.Derived == nil || d.OwnLimit != nil {
		t.Errorf("the second of the account is %s by %v, its own limit %v", d.Outcome, d.Derived, d.OwnLimit)
	}
	n.check(t, "user:x")
	if d := n.check(t, "user:x"); d.Outcome != Limited || d.OwnLimit == nil {
		t.Errorf("the third of the key is %s, its own limit %v", d.Outcome, d.OwnLimit)
	}
}

func TestReportsAlsoCountForFurtherKeys(t *testing.T) {
	account := func(name string) func(*Report) { return withReportValue("account", name) }
	onEveryLog(t, func(t *testing.T, n *node) {
		for _, k := range []string{"ip:203.0.113.1", "ip:198.51.100.1"} {
			r := n.report(t, k, "login_failed", account("alice"))
			if wantReported(t, r, Charged, Charged); r.Policies[1].Derived.String() != "account:alice" || r.Policies[1].IsFull() != (k != "ip:203.0.113.1") {
				t.Errorf("%s: %+v", k, r.Policies[1])
			}
		}
		wantReported(t, n.report(t, "ip:192.0.2.1", "login_failed", account("alice")), Charged, Full)
		d := n.check(t, "ip:192.0.2.77", withAccount("alice"))
		if d.Outcome != Limited || d.Derived == nil || d.Derived.String() != "account:alice" || !d.Policy.DependsOnRequest() || d.ID.IsZero() {
			t.Errorf("a check of the account: %s of %v", d.Outcome, d.Derived)
		}
		for _, other := range []func(*Check){withAccount("bob"), func(*Check) {}} {
			if d := n.check(t, "ip:192.0.2.77", other); d.Outcome != Allowed {
				t.Errorf("another account: %s", d.Outcome)
			}
		}
		wantReported(t, n.report(t, "ip:192.0.2.1", "login_failed"), Charged)
	}, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "guessing", "ip:*", "5/d", counts("login_failed"), also(t, "account 2/h")))
}

func TestParseDerivedReturnsCanonicalFurtherKeys(t *testing.T) {
	for text, want := range map[string]string{
		"net:/24": "net:/24", " net:/48  100/h ": "net:/48 100/1h", "account 50/d, 10/h": "account 10/1h 50/1d", "net:/24 10/h distinct account": "net:/24 10/1h distinct account",
		"net": "", "net:/4": "", "net:/64": "", "ip": "", "net:/24 x": "", "Account": "", "net:/024": "",
	} {
		d, err := rules.ParseDerived(text)
		if (err == nil) != (want != "") || err == nil && d.String() != want {
			t.Errorf("ParseDerived(%q) = %q, %v; want %q", text, d, err, want)
		}
	}
	values := map[string]string{"account": "a\nb"}
	d, _ := rules.ParseDerived("account")
	if k, found := d.KeyOf(key(t, "ip:203.0.113.7"), nil, values); !found || len(k.String()) != len("account:#")+32 {
		t.Errorf("KeyOf with a value that no key can contain: got %q, want a hash", k)
	}
	six, _ := rules.ParseDerived("net:/48")
	if k, found := six.KeyOf(key(t, "ip:2001:db8:1:2::3"), nil, nil); !found || k.String() != "net:2001:db8:1::/48" {
		t.Errorf("the network of an IPv6 address is %q", k)
	}
}
