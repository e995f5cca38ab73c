package gate

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// withValues returns a change of a check that sets values of its request.
func withValues(values map[string]string) func(*Check) {
	return func(c *Check) { c.Request = conditions.NewRequest("", "GET", "", "").WithValues(values) }
}

// inScope returns a change of a check that sets the scope of its request.
func inScope(name string) func(*Check) {
	return func(c *Check) { c.Request = conditions.NewRequest("/", "", "", "").InScope(name) }
}

// TestRetryAtIncludesALongerBlockOfTheScope also has a block for every check, which ends
// earlier.
func TestRetryAtIncludesALongerBlockOfTheScope(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"))
	k := "ip:203.0.113.7"
	n.Blocks().Apply(&blocks.Entry{ID: "login", Kind: blocks.Block, Pattern: pattern(t, k), EntryTerms: wire.EntryTerms{Scope: "login"}, Expires: n.clock().Add(24 * time.Hour), Revision: 1}, n.clock())
	n.Blocks().Apply(&blocks.Entry{ID: "all", Kind: blocks.Block, Pattern: pattern(t, k), Expires: n.clock().Add(time.Minute), Revision: 2}, n.clock())
	d := n.check(t, k, inScope("login"))
	n.advance(d.RetryAfter())
	d = n.check(t, k, inScope("login"))
	if d.Outcome == Blocked {
		t.Errorf("after RetryAfter the check is %s, retry after %s", d.Outcome, d.RetryAfter())
	}
}

// TestExplanationIncludesBlocksAndExemptionsOfFurtherKeys compares the explanation with the
// decision.
func TestExplanationIncludesBlocksAndExemptionsOfFurtherKeys(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m", also(t, "net:/24 3/m")))
	n.block(t, "net", "net:192.0.2.0/24", time.Time{})
	d := n.check(t, "ip:192.0.2.3", peeks)
	x, err := n.Explain(t.Context(), key(t, "ip:192.0.2.3"), "")
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome != x.Outcome {
		t.Errorf("net blocked: decision %s, explanation %s", d.Outcome, x.Outcome)
	}
	for _, k := range []string{"ip:198.51.100.1", "ip:198.51.100.2", "ip:198.51.100.3"} {
		n.check(t, k)
	}
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "ex", Pattern: pattern(t, "net:198.51.100.0/24")}, n.clock())
	d = n.check(t, "ip:198.51.100.9", peeks)
	if x, err = n.Explain(t.Context(), key(t, "ip:198.51.100.9"), ""); err != nil {
		t.Fatal(err)
	}
	if d.Outcome != x.Outcome {
		t.Errorf("net exempt: decision %s, explanation %s", d.Outcome, x.Outcome)
	}
}

// TestFurtherKeyOfADistinctPolicyDependsOnTheRequest uses a policy that counts
// distinct values for the key, and requests for the further key.
func TestFurtherKeyOfADistinctPolicyDependsOnTheRequest(t *testing.T) {
	n := newNode(t, policy(t, 1, "scan", "ip:*", "100/d", func(p *rules.Policy) {
		for i := range p.Rules {
			p.Rules[i].Distinct = "page"
		}
	}, also(t, "net:/24 2/h")))
	for _, k := range []string{"ip:203.0.113.1", "ip:203.0.113.2"} {
		n.check(t, k, withValues(map[string]string{"page": k}))
	}
	d := n.check(t, "ip:203.0.113.3", withValues(map[string]string{"page": "x"}), peeks)
	free := n.check(t, "ip:203.0.113.3", peeks)
	x, err := n.Explain(t.Context(), key(t, "ip:203.0.113.3"), "")
	if err != nil {
		t.Fatal(err)
	}
	if free.Outcome != x.Outcome || d.Outcome == Limited && free.Outcome == Allowed && !d.Policy.DependsOnRequest() {
		t.Errorf("without a value: the check is %s, the explanation %s, DependsOnRequest %v", free.Outcome, x.Outcome, d.Policy.DependsOnRequest())
	}
}

func TestDistinctFurtherKeyAllowsACheckWithoutAValue(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "ip:*", "100/h", also(t, "net:/24 2/h distinct page")))
	for _, k := range []string{"ip:203.0.113.1", "ip:203.0.113.2"} {
		n.check(t, k, withValues(map[string]string{"page": k}))
	}
	d := n.check(t, "ip:203.0.113.3", withValues(map[string]string{"page": "x"}), peeks)
	same := n.check(t, "ip:203.0.113.3", withValues(map[string]string{"page": "ip:203.0.113.1"}), peeks)
	if d.Outcome != Limited || same.Outcome != Allowed {
		t.Errorf("a new page: %s; a known one: %s", d.Outcome, same.Outcome)
	}
	free := n.check(t, "ip:203.0.113.3", peeks)
	x, err := n.Explain(t.Context(), key(t, "ip:203.0.113.3"), "")
	if err != nil {
		t.Fatal(err)
	}
	if free.Outcome != Allowed || free.Outcome != x.Outcome {
		t.Errorf("without a value: the check is %s, the explanation %s; want both allowed", free.Outcome, x.Outcome)
	}
}

// TestCancelledReservationFreesAllThatItCharged has two checks of one key. A policy with conditions
// is charged the larger of their costs.
func TestCancelledReservationFreesAllThatItCharged(t *testing.T) {
	n := newNode(t, policy(t, 2, "login", "*", "10/m", when(t, "/login", "")), policy(t, 3, "named", "other:*", "100/m"))
	login := conditions.NewRequest("/login", "", "", "")
	n.check(t, "token:a", func(c *Check) { c.Request = login; c.Cost = 10 })
	n.advance(10 * time.Second)
	all := []Check{
		{Key: key(t, "token:a"), Cost: 1, Request: login, MaxWait: time.Hour, ID: "x"},
		{Key: key(t, "token:a"), Policy: "named", Cost: 5, Request: login, MaxWait: time.Hour, ID: "x"},
	}
	j, err := n.DecideAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if freed, err := n.Cancel(t.Context(), j.Handle); err != nil || !freed {
		t.Fatalf("cancelled: %v, %v", freed, err)
	}
	// The state is as before: 10 fit in 50 s.
	d := n.check(t, "token:a", func(c *Check) { c.Request = login; c.Cost = 10; c.MaxWait = time.Hour; c.Peek = true })
	if d.Delay != 50*time.Second {
		t.Errorf("after Cancel the delay for a cost of 10 is %s, want 50s", d.Delay)
	}
}

// TestHostValueIsNormalizedAsInConditions uses one host in five spellings.
func TestHostValueIsNormalizedAsInConditions(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "ip:*", "100/h", also(t, "host 2/h")))
	allowed := 0
	for _, host := range []string{"shop.example", "Shop.example", "SHOP.example", "shop.example:443", "shop.example."} {
		if n.check(t, "ip:203.0.113.1", withValues(map[string]string{"host": host})).Outcome == Allowed {
			allowed++
		}
	}
	byRequest := 0
	for _, host := range []string{"site.example", "Site.example", "SITE.example", "site.example:443", "site.example."} {
		if n.check(t, "ip:203.0.113.1", func(c *Check) { c.Request = conditions.NewRequest("", "", "", host) }).Outcome == Allowed {
			byRequest++
		}
	}
	if allowed != 2 || byRequest != 2 {
		t.Errorf("under host 2/h %d checks are allowed by values and %d by the request, want 2 and 2", allowed, byRequest)
	}
}

// movingLog advances the clock after its first Decide, like the time that passes between two
// calls of Redis.
type movingLog struct {
	slotLog
	n     *node
	by    time.Duration
	calls *int
}

func (l movingLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	l.slotLog.Decide(ctx, requests, results)
	if *l.calls++; *l.calls == 1 {
		l.n.advance(l.by)
	}
}

// TestSeveralKeysAreChargedIfOneGetsRoomBetweenTwoCalls simulates a Cluster, where the gate first
// peeks at the keys and then charges them. The limit of one key ends in between.
func TestSeveralKeysAreChargedIfOneGetsRoomBetweenTwoCalls(t *testing.T) {
	n := newNode(t, policy(t, 1, "a", "a:*", "1/s"), policy(t, 2, "b", "b:*", "1/h"))
	inner := n.log
	n.check(t, "a:1")
	n.advance(999 * time.Millisecond)
	calls := 0
	n.Gate = New(Options{View: n, Log: movingLog{slotLog{inner}, n, time.Millisecond, &calls}, Now: n.clock})
	allowed := 0
	for range 3 {
		j, err := n.DecideAllOrApart(t.Context(), checks(t, []string{"a:1", "b:1"}))
		if err != nil {
			t.Fatal(err)
		}
		if j.Outcome == Allowed {
			allowed++
		}
		n.advance(999 * time.Millisecond)
		calls = 0
	}
	if allowed > 1 {
		t.Errorf("under 1/h for b:1 %d checks were allowed, want at most 1", allowed)
	}
}
