package gate

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// by returns a change of a policy that sets its algorithm.
func by(name string, o algorithms.Options) func(*rules.Policy) {
	return func(p *rules.Policy) { p.Algorithm, p.Options = name, o }
}

func TestExplanationHasUsedAndRemainingForEveryAlgorithm(t *testing.T) {
	for _, a := range algorithms.All() {
		t.Run(a.Name, func(t *testing.T) {
			n := newNode(t, policy(t, 1, "default", "*", "5/m 50/h", by(a.Name, algorithms.Options{})))
			for range 3 {
				n.check(t, "token:a")
			}
			x, err := n.Explain(t.Context(), key(t, "token:a"), "")
			if err != nil {
				t.Fatal(err)
			}
			e := x.Enforcing
			if x.Outcome != Allowed || len(e.Rules) != 2 || e.Rules[0].Used != 3 || e.Rules[0].Remaining != 2 || e.Rules[1].Used != 3 {
				t.Errorf("after three of five: %s, %+v", x.Outcome, e.Rules)
			}
			if times := len(e.Timestamps); a.IsLog() != (times == 3) || !a.IsLog() && times > 0 || a.IsLog() == e.Rules[0].NextExpiry.IsZero() {
				t.Errorf("got %d timestamps and the next expiry %s, want 3 and an expiry for a log only", times, e.Rules[0].NextExpiry)
			}
			for n.check(t, "token:a").Outcome == Allowed {
			}
			x, err = n.Explain(t.Context(), key(t, "token:a"), "")
			if err != nil || x.Outcome != Limited || x.Enforcing.Rules[0].Remaining != 0 || x.Enforcing.Rules[0].Used != 5 || !x.NextAllowed.After(x.At) {
				t.Errorf("beyond the limit: %s, %+v, next at %s, %v", x.Outcome, x.Enforcing.Rules, x.NextAllowed, err)
			}
		})
	}
}

func TestUsedOfABucketIsRelativeToItsBurst(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "5/m", by(algorithms.TokenBucket, algorithms.Options{Burst: 9})))
	n.check(t, "token:a")
	x, err := n.Explain(t.Context(), key(t, "token:a"), "")
	if err != nil || x.Enforcing.Rules[0].Used != 1 || x.Enforcing.Rules[0].Remaining != 8 {
		t.Errorf("got %+v, %v", x.Enforcing.Rules, err)
	}
}

func TestTimestampsIncludeReservationsInTheFuture(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"))
	n.check(t, "token:a")
	d := n.check(t, "token:a", waits(time.Hour))
	x, err := n.Explain(t.Context(), key(t, "token:a"), "")
	if err != nil || len(x.Enforcing.Timestamps) != 2 || !x.Enforcing.Timestamps[0].Equal(d.ReservedAt) || x.NextAllowed.Sub(x.At) != 2*time.Minute {
		t.Errorf("got %+v until %s, %v", x.Enforcing, x.NextAllowed, err)
	}
}
