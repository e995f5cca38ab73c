package gate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// checks returns checks of keys, each with the same changes.
func checks(t *testing.T, texts []string, change ...func(*Check)) []Check {
	t.Helper()
	var all []Check
	for _, text := range texts {
		c := Check{Key: key(t, text), Cost: 1, Detail: true}
		for _, f := range change {
			f(&c)
		}
		all = append(all, c)
	}
	return all
}

func (n *node) checkAll(t *testing.T, texts []string, change ...func(*Check)) Combined {
	t.Helper()
	j, err := n.DecideAll(t.Context(), checks(t, texts, change...))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// used returns how much of the first rule a key has used.
func (n *node) used(t *testing.T, text string) int {
	t.Helper()
	x, err := n.Explain(t.Context(), key(t, text), "")
	if err != nil {
		t.Fatal(err)
	}
	return x.Enforcing.Rules[0].Used
}

func TestDecideAllChargesAllKeysOrNone(t *testing.T) {
	n := newNode(t, policy(t, 1, "addresses", "ip:*", "3/m"), policy(t, 2, "tokens", "token:*", "1/m"))
	both := []string{"ip:203.0.113.7", "token:a"}
	if j := n.checkAll(t, both); j.Outcome != Allowed || !j.ID.IsZero() || j.Refused() != nil {
		t.Fatalf("the first: %s, id %q", j.Outcome, j.ID)
	}
	n.advance(time.Second)
	j := n.checkAll(t, both)
	if j.Outcome != Limited || j.ID != j.Decisions[1].ID || j.ID.IsZero() || j.RetryAfter() != 59*time.Second {
		t.Fatalf("the second: %s, id %q, wait %s", j.Outcome, j.ID, j.RetryAfter())
	}
	if j.Decisions[0].Outcome != Allowed || !j.Decisions[0].ID.IsZero() || j.Decisions[1].Outcome != Limited || len(j.Decisions[1].States) != 1 {
		t.Errorf("the decisions of the second are %+v", j.Decisions)
	}
	if used := n.used(t, "ip:203.0.113.7"); used != 1 {
		t.Errorf("the key with room has used %d, want 1", used)
	}
	if want := []Outcome{Allowed, Allowed, Limited}; !slices.Equal(n.recorded.outcomes, want) {
		t.Errorf("the recorder got %v, want %v: only the key that refuses is refused", n.recorded.outcomes, want)
	}
}

func TestDecideAllReturnsTheMostSevereOutcome(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "limited", "l:*", "0/m"), policy(t, 2, "denied", "d:*", "1/m", onFailure(rules.FailDeny)),
		policy(t, 3, "open", "o:*", "5/m"))
	n.block(t, "b", "b:*", n.clock().Add(time.Hour))
	for _, test := range []struct {
		keys string
		down bool
		want Outcome
	}{
		{"o:1 x:1", false, Allowed}, {"o:1 l:1", false, Limited}, {"l:1 b:1", false, Blocked}, {"b:1 o:1", false, Blocked},
		{"d:1 o:1", true, Unavailable}, {"d:1 b:1", true, Blocked}, {"o:1 l:1", true, Limited}, {"d:1 l:1", true, Unavailable},
	} {
		log.down.Store(test.down)
		j := n.checkAll(t, strings.Fields(test.keys))
		if j.Outcome != test.want || test.down != (j.Degraded != "") && test.want != Blocked {
			t.Errorf("%s, down %v: %s, degraded %q; want %s", test.keys, test.down, j.Outcome, j.Degraded, test.want)
		}
		if first := j.Refused(); (first == nil) != (test.want == Allowed) || first != nil && first.ID != j.ID {
			t.Errorf("%s: Refused returns %+v, want a decision only if refused, with the id of the whole", test.keys, first)
		}
	}
	log.down.Store(false)
	if used := n.used(t, "o:1"); used != 1 {
		t.Errorf("after one allowed and several refused checks o:1 has used %d, want 1", used)
	}
}

func TestOutageDecidesSeveralKeysLocallyAsOne(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "one", "a:*", "1/m"), policy(t, 2, "many", "b:*", "5/m"), policy(t, 3, "open", "c:*", "1/m", onFailure(rules.FailAllow)))
	log.down.Store(true)
	all := []string{"a:1", "b:1", "c:1"}
	if j := n.checkAll(t, all); j.Outcome != Allowed || j.Degraded == "" {
		t.Fatalf("got %s, degraded %q", j.Outcome, j.Degraded)
	}
	j := n.checkAll(t, all)
	if j.Outcome != Limited || j.Decisions[1].Outcome != Allowed || j.Decisions[2].Outcome != Allowed {
		t.Fatalf("got %s of %+v", j.Outcome, j.Decisions)
	}
	if d := n.check(t, "b:1", peeks, func(c *Check) { c.Detail = true }); d.States[0].Remaining != 4 {
		t.Errorf("after a refused check the local log has %d left, want 4", d.States[0].Remaining)
	}
	if j := n.checkAll(t, []string{"a:2", "b:2"}, waits(time.Minute)); j.Handle != "" || !j.ReservedAt.IsZero() {
		t.Errorf("in an outage: got the handle %q and the reservation %s, want none", j.Handle, j.ReservedAt)
	}
}

func TestSeveralKeysHaveOneReservationAndOneHandle(t *testing.T) {
	n := newNode(t, policy(t, 1, "slow", "a:*", "1/20s"), policy(t, 2, "fast", "b:*", "1/5s"))
	all := []string{"a:1", "b:1"}
	n.checkAll(t, all)
	j := n.checkAll(t, all, waits(time.Minute))
	if j.Outcome != Allowed || j.Delay != 20*time.Second || !j.ReservedAt.Equal(n.clock().Add(20*time.Second)) || j.Handle == "" {
		t.Fatalf("got %s, wait %s, reservation %s, handle %q", j.Outcome, j.Delay, j.ReservedAt, j.Handle)
	}
	if d := n.check(t, "b:1", waits(time.Minute), peeks); d.Delay != 25*time.Second {
		t.Errorf("the faster key's next reservation is %s away, want 25s", d.Delay)
	}
	n.wantCancelled(t, j.Handle, true)
	if d := n.check(t, "b:1", waits(time.Minute), peeks); d.Delay >= 25*time.Second {
		t.Errorf("after it was cancelled the faster key still waits %s", d.Delay)
	}
	if j := n.checkAll(t, all, waits(10*time.Second)); j.Outcome != Limited || j.Delay != 0 || !j.ReservedAt.IsZero() || j.RetryAfter() == 0 {
		t.Errorf("beyond MaxWait: got %s, delay %s, reservation %s, retry after %s", j.Outcome, j.Delay, j.ReservedAt, j.RetryAfter())
	}
}

func TestRepeatedCheckOfSeveralKeysIsChargedOnce(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"))
	all := []string{"a:1", "b:1"}
	if j := n.checkAll(t, all, named("x")); j.Outcome != Allowed || j.Replayed {
		t.Fatalf("got %s, replayed %v", j.Outcome, j.Replayed)
	}
	if j := n.checkAll(t, all, named("x")); j.Outcome != Allowed || !j.Replayed {
		t.Errorf("the same id: got %s, replayed %v", j.Outcome, j.Replayed)
	}
	if j := n.checkAll(t, all, named("y")); j.Outcome != Limited || j.Replayed {
		t.Errorf("another id: got %s, replayed %v", j.Outcome, j.Replayed)
	}
}

func TestDecideAllAllowsKeysWithoutALimit(t *testing.T) {
	n := newNode(t, policy(t, 1, "tokens", "token:*", "0/s"), policy(t, 2, "free", "free:*", ""), policy(t, 3, "off", "off:*", "0/s", mode(rules.Off)))
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e", Pattern: pattern(t, "token:good")}, n.clock())
	if j := n.checkAll(t, []string{"token:good", "free:1", "off:1", "nobody"}); j.Outcome != Allowed || j.At.IsZero() {
		t.Errorf("got %s at %s: %+v", j.Outcome, j.At, j.Decisions)
	}
}

func TestShadowPolicyIsAskedOnlyIfTheCheckIsAllowed(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"), policy(t, 2, "trial", "a:*", "5/m", mode(rules.Shadow)))
	if j := n.checkAll(t, []string{"a:1", "b:1"}); j.Decisions[0].Shadow == nil || j.Decisions[0].Shadow.States[0].Remaining != 4 {
		t.Fatalf("the shadow of an allowed check is %+v", j.Decisions[0].Shadow)
	}
	if j := n.checkAll(t, []string{"a:2", "b:1"}); j.Outcome != Limited || j.Decisions[0].Shadow != nil {
		t.Errorf("the shadow of a refused check is %+v, want nil", j.Decisions[0].Shadow)
	}
	if d := n.check(t, "a:2", func(c *Check) { c.Detail = true }); d.Shadow.States[0].Remaining != 4 {
		t.Errorf("after a refused check the shadow's log has %d left, want 4", d.Shadow.States[0].Remaining)
	}
}

// crossSlotLog is a log whose keys are in different slots.
type crossSlotLog struct{ timestamplog.Log }

func (crossSlotLog) DecideAll(context.Context, []timestamplog.Request, []timestamplog.Result) error {
	return timestamplog.ErrCrossSlot
}

func TestKeysOfDifferentSlotsAreAFaultAndNoOutage(t *testing.T) {
	n, _ := newRemoteNode(t, policy(t, 1, "default", "*", "3/m"))
	n.Gate = New(Options{View: n, Log: crossSlotLog{n.log}, Local: n.local, Now: n.clock})
	for range 6 {
		if _, err := n.DecideAll(t.Context(), checks(t, []string{"a", "b"})); fieldOf(err) != "keys" {
			t.Fatalf("got %v", err)
		}
	}
	if n.Outage().Open() {
		t.Error("ErrCrossSlot opens an outage")
	}
}

// A request that is sent again under its ID was charged already, and is replayed although its key
// has no room left.
func TestRequestWithFurtherKeysInOtherSlotsIsReplayed(t *testing.T) {
	for _, also := range []func(*rules.Policy){also(t, "account 1/h"), also(t, "account 9/h")} {
		n, _ := newRemoteNode(t, policy(t, 1, "default", "*", "2/m", also))
		n.Gate = New(Options{View: n, Log: crossSlotLog{n.log}, Local: n.local, Now: n.clock})
		n.check(t, "ip:192.0.2.1", withAccount("bob"))
		named := func(id string) func(*Check) { return func(c *Check) { c.ID = id } }
		for range 3 {
			if d := n.check(t, "ip:192.0.2.1", withAccount("alice"), named("a")); d.Outcome != Allowed {
				t.Fatalf("the request is %s by %v", d.Outcome, d.Derived)
			}
		}
		if d := n.check(t, "ip:192.0.2.1", withAccount("alice"), named("b")); d.Outcome != Limited {
			t.Errorf("another request is %s", d.Outcome)
		}
		if used := n.used(t, "ip:192.0.2.1"); used != 2 {
			t.Errorf("the address has used %d, want 2", used)
		}
	}
}

// If several policies decide a check, its refusal is not counted, not even on a Redis Cluster
// under the ID of the request, where it would count each time the request is sent again.
func TestRefusalBySeveralPoliciesIsNotChargedOnACluster(t *testing.T) {
	for _, id := range []string{"", "b"} {
		n, _ := newRemoteNode(t, policy(t, 1, "counting", "*", "1/m", countRefused), policy(t, 2, "logins", "ip:*", "9/m", when(t, "/login", "POST"), also(t, "account 9/h")))
		n.Gate = New(Options{View: n, Log: crossSlotLog{n.log}, Local: n.local, Now: n.clock})
		named := func(id string) func(*Check) { return func(c *Check) { c.ID = id } }
		for range 3 { // the first is charged, the others are replays
			if d := n.check(t, "ip:192.0.2.1", withAccount("alice"), named("a")); d.Outcome != Allowed {
				t.Fatalf("the request is %s", d.Outcome)
			}
		}
		n.advance(59 * time.Second)
		for range 4 {
			if d := n.check(t, "ip:192.0.2.1", withAccount("alice"), named(id)); d.Outcome != Limited {
				t.Fatalf("another request is %s", d.Outcome)
			}
		}
		n.advance(time.Second) // until the charged entry has left the window of a minute
		if d := n.check(t, "ip:192.0.2.1", withAccount("alice")); d.Outcome != Allowed {
			t.Errorf("after refusals under the id %q a request is %s", id, d.Outcome)
		}
	}
}

func TestFaultOfOneKeyNamesItsPosition(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "3/m"), policy(t, 2, "counting", "c:*", "3/m", countRefused))
	for name, test := range map[string]struct {
		all   []Check
		field string
	}{
		"an unknown policy":                {[]Check{{Key: key(t, "a"), Cost: 1}, {Key: key(t, "b"), Cost: 1, Policy: "none"}}, "keys[1].policy"},
		"a cost above the limit":           {[]Check{{Key: key(t, "a"), Cost: 4}}, "keys[0].cost"},
		"a key twice":                      {checks(t, []string{"a", "b", "a"}), "keys[2]"},
		"a key twice under its own policy": {[]Check{{Key: key(t, "a"), Cost: 1}, {Key: key(t, "a"), Cost: 1, Policy: "default"}}, "keys[1]"},
		"two addresses of one network":     {checks(t, []string{"ip:2001:db8::1", "ip:2001:db8::2"}), "keys[1]"},
		"a wait if refused requests count": {checks(t, []string{"a", "c:1"}, waits(time.Second)), "max_wait"},
	} {
		if _, err := n.DecideAll(t.Context(), test.all); fieldOf(err) != test.field {
			t.Errorf("%s: got %v, want an error about %s", name, err, test.field)
		}
	}
	if len(n.recorded.outcomes) > 0 {
		t.Errorf("the recorder got %v, want nothing", n.recorded.outcomes)
	}
	other := []Check{{Key: key(t, "c:1"), Cost: 1}, {Key: key(t, "c:1"), Cost: 1, Policy: "default"}}
	if j, err := n.DecideAll(t.Context(), other); err != nil || j.Outcome != Allowed {
		t.Errorf("one key under two policies: %v, %v", j.Outcome, err)
	}
	n.loaded = false
	if _, err := n.DecideAll(t.Context(), other); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before the catalog is loaded: got %v, want Unavailable", err)
	}
}

func TestConcurrentChecksOfOverlappingKeysChargeOnlyWhenAllowed(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "20/h"))
	groups := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "b", "c"}}
	allowed := make([]int, len(groups))
	var callers sync.WaitGroup
	for g, group := range groups {
		all := checks(t, group)
		callers.Go(func() {
			for range 30 {
				if j, err := n.DecideAll(t.Context(), all); err == nil && j.Outcome == Allowed {
					allowed[g]++
				}
			}
		})
	}
	callers.Wait()
	for _, k := range []string{"a", "b", "c"} {
		want := 0
		for g, group := range groups {
			if slices.Contains(group, k) {
				want += allowed[g]
			}
		}
		if used := n.used(t, k); used != want || used > 20 {
			t.Errorf("%s has used %d, want %d as its allowed checks", k, used, want)
		}
	}
}

// TestConditionalPolicyIsChargedOnceForSeveralChecksOfOneKey applies a policy with conditions to two checks
// of one key. One of them is under another policy, or names the policy.
func TestConditionalPolicyIsChargedOnceForSeveralChecksOfOneKey(t *testing.T) {
	const k = "ip:203.0.113.7"
	for name, c := range map[string]struct {
		named   string
		costs   [2]int
		charged int // of 3/m
	}{
		"by its conditions":                 {"other", [2]int{1, 1}, 1},
		"by its conditions, costs differ":   {"other", [2]int{1, 2}, 2},
		"costs differ the other way around": {"other", [2]int{2, 1}, 2},
		"named as well":                     {"login", [2]int{1, 3}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "other", "token:*", "100/m"), policy(t, 3, "login", "ip:*", "3/m", when(t, "/login", "POST")))
			a, b := Check{Key: key(t, k), Cost: c.costs[0]}, Check{Key: key(t, k), Policy: c.named, Cost: c.costs[1]}
			withRequest("POST", "/login")(&a)
			withRequest("POST", "/login")(&b)
			all, err := n.DecideAll(t.Context(), []Check{a, b})
			if err != nil || !all.Allowed() {
				t.Fatalf("got %+v, %v", all, err)
			}
			left := 0
			for n.check(t, k, withRequest("POST", "/login")).Outcome == Allowed {
				left++
			}
			if left != 3-c.charged {
				t.Errorf("3/m has %d left after %d were charged", left, c.charged)
			}
		})
	}
}

// TestConditionalPolicyIsChargedOnceForSeveralAddressesOfOneKey asks about two IPv6 addresses that
// are counted as one key.
func TestConditionalPolicyIsChargedOnceForSeveralAddressesOfOneKey(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "900/m"), policy(t, 2, "other", "token:*", "900/m"), policy(t, 3, "login", "ip:*", "900/m", when(t, "/login", "POST")))
	login := withRequest("POST", "/login")
	n.check(t, "ip:2001:db8::3", login)
	a, b := Check{Key: key(t, "ip:2001:db8::1"), Cost: 100}, Check{Key: key(t, "ip:2001:db8::2"), Policy: "other", Cost: 50}
	login(&a)
	login(&b)
	if all, err := n.DecideAll(t.Context(), []Check{a, b}); err != nil || !all.Allowed() {
		t.Fatalf("got %+v, %v", all, err)
	}
	if d := n.check(t, "ip:2001:db8::1", func(c *Check) { c.Policy, c.Peek, c.Detail = "login", true, true }); d.States[0].Remaining != 799 {
		t.Errorf("900/m has %d left, want 799", d.States[0].Remaining)
	}
}

// TestShadowPolicyIsChargedOnceForSeveralChecksOfOneKey asks about one key under two policies.
func TestShadowPolicyIsChargedOnceForSeveralChecksOfOneKey(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "other", "other:*", "100/m"), policy(t, 3, "trial", "token:*", "9/m", mode(rules.Shadow)),
		policy(t, 4, "login", "token:*", "9/m", mode(rules.Shadow), when(t, "/login", "POST")))
	check := func(cost int, policy string) Check {
		c := Check{Key: key(t, "token:a"), Policy: policy, Cost: cost}
		withRequest("POST", "/login")(&c)
		return c
	}
	for _, c := range []struct {
		checks []Check
		trial  [2]bool // which decisions have the shadow policy
		left   [2]int  // of the 9/m of trial and of login
	}{
		{[]Check{check(1, ""), check(2, "other")}, [2]bool{false, true}, [2]int{7, 7}},
		{[]Check{check(1, "other"), check(1, "")}, [2]bool{true, false}, [2]int{6, 6}},
		{[]Check{check(1, "login"), check(1, "other")}, [2]bool{false, true}, [2]int{5, 5}},
	} {
		all, err := n.DecideAll(t.Context(), c.checks)
		if err != nil || !all.Allowed() {
			t.Fatalf("got %+v, %v", all, err)
		}
		for i, want := range c.trial {
			if s := all.Decisions[i].Shadow; (s != nil && s.Policy.Name == "trial") != want {
				t.Errorf("decision %d has the shadow %+v; is it of the trial: %t", i, s, want)
			}
		}
		for i, name := range []string{"trial", "login"} {
			d := n.check(t, "token:a", func(c *Check) { c.Policy, c.Peek, c.Detail = name, true, true })
			if left := d.Shadow.States[0].Remaining; left != c.left[i] {
				t.Errorf("after %+v the 9/m of %s has %d left, want %d", c.checks, name, left, c.left[i])
			}
		}
	}
}
