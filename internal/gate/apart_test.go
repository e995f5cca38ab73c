package gate

import (
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
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
