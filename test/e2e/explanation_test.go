package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

func TestExplanationMatchesTheAnswersOfChecks(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["2/300ms","4/1s","9/3s"]}`)
	random := rand.New(rand.NewPCG(1, 2))
	limited := 0
	for range 150 {
		key := fmt.Sprintf("token:%d", random.IntN(3))
		n.about(key)
		x, peek := n.explain(key), n.ask(`{"key":"`+key+`","peek":true}`)
		switch {
		case x.Decision == wire.Limited && peek.Decision == wire.Limited:
			limited++
			if x.NextAllowedAt != peek.RetryAt || x.Policy.Rule != peek.Rule || x.Policy.RetryAt != peek.RetryAt {
				t.Fatalf("%s: the explanation has %s by %s, the check %s by %s", key, x.NextAllowedAt, x.Policy.Rule, peek.RetryAt, peek.Rule)
			}
		case x.Decision == wire.Limited: // the wait ended in between
			if time.Now().Before(x.NextAllowedAt.Time) {
				t.Fatalf("%s was allowed before %s", key, x.NextAllowedAt)
			}
		case x.Decision != wire.Allowed || !peek.Allowed:
			t.Fatalf("%s: the explanation is %s, the check %s", key, x.Decision, peek.Decision)
		}
		for i, rule := range x.Policy.Rules {
			if rule.Used+rule.Remaining != rule.Limit || rule.Used > len(x.Policy.Timestamps) {
				t.Fatalf("rule %d of %s does not add up: %+v with %d times", i, key, rule, len(x.Policy.Timestamps))
			}
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
	if limited == 0 {
		t.Error("no check was limited, so the test has no effect")
	}
}

func TestCheckAtRetryAtIsAllowed(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["3/200ms","5/900ms"]}`)
	for range 15 {
		d := n.about("token:a")
		if d.Allowed {
			continue
		}
		for time.Now().Before(d.RetryAt.Time) { // the node has the same clock
			time.Sleep(time.Until(d.RetryAt.Time))
		}
		if again := n.about("token:a"); !again.Allowed {
			t.Fatalf("a check at RetryAt %s was refused until %s", d.RetryAt, again.RetryAt)
		}
	}
}
