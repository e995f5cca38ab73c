package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
)

// TestFurtherKeyOfKeysInOtherSlotsIsChargedOnce asks about two keys that are decided apart. Both
// meet a policy that also counts the host.
func TestFurtherKeyOfKeysInOtherSlotsIsChargedOnce(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "api", "*", "100/m", when(t, "/api/*", ""), also(t, "host 3/m")))
	n.Gate = New(Options{View: n, Log: crossSlotLog{n.log}, Now: n.clock})
	request := conditions.NewRequest("/api/a", "GET", "", "example.org")
	for i, want := range []Outcome{Allowed, Allowed, Allowed, Limited} {
		all, err := n.DecideAllOrApart(t.Context(), checks(t, []string{"ip:203.0.113.1", "token:a"}, func(c *Check) { c.Request = request }))
		if err != nil || all.Outcome != want {
			t.Errorf("request %d is %s, %v; want %s", i+1, all.Outcome, err, want)
		}
	}
}

// Refusals of several keys as one are not counted, not even if the keys are asked about apart on a
// Redis Cluster: the gateway's client would wait longer there than with a single Redis.
func TestRefusalsOfKeysInOtherSlotsAreNotCounted(t *testing.T) {
	for name, others := range map[string][]*rules.Policy{
		"own policies":              nil,
		"a policy with an outcome":  {policy(t, 3, "logins", "*", "9/m", counts("login_failed"))},
		"a policy with a condition": {policy(t, 3, "reads", "*", "9/m", when(t, "", "GET"))},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryLog(t, func(t *testing.T, n *node) {
				apart := New(Options{View: n, Log: crossSlotLog{n.log}, Local: n.local, Deadline: time.Minute, Now: n.clock})
				ask := func(want Outcome) {
					t.Helper()
					all, err := apart.DecideAllOrApart(t.Context(), checks(t, []string{"a:1", "b:1"}, withRequest("GET", "/")))
					if err != nil || all.Outcome != want {
						t.Errorf("a request is %s, %v; want %s", all.Outcome, err, want)
					}
				}
				ask(Allowed)
				n.advance(9 * time.Second)
				ask(Limited)
				n.advance(time.Second) // until the charged entry has left the window
				ask(Allowed)
			}, append(others, policy(t, 1, "counting", "a:*", "1/10s", countRefused), policy(t, 2, "default", "*", "100/m"))...)
		})
	}
}

// A client chooses how many values its request has, and may not thereby get an error in place of an
// answer: a gateway may let a request pass then.
func TestGatewayIsAnsweredThoughOneCallOfTheLogCannotDecideAllKeys(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		var values []string
		for i := range 16 {
			values = append(values, fmt.Sprint("header:x-user:", i))
		}
		request := func(c *Check) { c.Request = conditions.NewRequest("/api/a", "GET", "", "example.org") }
		if _, err := n.DecideAll(t.Context(), checks(t, values, request)); fieldOf(err) != "keys" {
			t.Fatalf("DecideAll: got %v, want an error about keys", err)
		}
		for i, want := range []Outcome{Allowed, Allowed, Limited} {
			all, err := n.DecideAllOrApart(t.Context(), checks(t, values, request))
			if err != nil || all.Outcome != want {
				t.Fatalf("request %d is %s, %v; want %s", i+1, all.Outcome, err, want)
			}
		}
		if d := n.check(t, values[0]); d.Outcome != Allowed {
			t.Errorf("a check of one value outside /api is %s", d.Outcome)
		}
	}, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "api", "*", "2/m", when(t, "/api/*", "")), policy(t, 3, "reads", "*", "9/m", when(t, "", "GET")))
}
