package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
)

func challenging(p *rules.Policy) { p.OnLimit = rules.ChallengeOnLimit }

func withPass(t *testing.T, id string) func(*Check) {
	return func(c *Check) { c.Pass = key(t, "pass:"+id) }
}

// A pass that has used up its limit is refused, under a policy that challenges too: otherwise who
// shares a pass would have no limit at all.
func TestAPassIsLimitedByThePolicyThatChallenges(t *testing.T) {
	n := newNode(t, policy(t, 1, "site", "*", "2/1m", challenging))
	for range 2 {
		n.check(t, "ip:203.0.113.7")
	}
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Challenged {
		t.Fatalf("without a pass: %s", d.Outcome)
	}
	for i := range 2 {
		if d := n.check(t, fmt.Sprintf("ip:203.0.113.%d", 7+i), withPass(t, "a")); d.Outcome != Allowed {
			t.Errorf("request %d of the pass: %s", i, d.Outcome)
		}
	}
	if d := n.check(t, "ip:203.0.113.9", withPass(t, "a")); d.Outcome != Limited {
		t.Errorf("beyond the limit of the pass: %s", d.Outcome)
	}
	if d := n.check(t, "ip:203.0.113.7", withPass(t, "b")); d.Outcome != Allowed {
		t.Errorf("another pass: %s", d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, "pass:a"), "")
	if err != nil {
		t.Fatal(err)
	}
	if x.Outcome != Limited {
		t.Errorf("it is explained as %s", x.Outcome)
	}
}

// A pass that no policy is for has the limits of the policies that would challenge it.
func TestAPassWithoutAPolicyHasTheLimitThatChallenges(t *testing.T) {
	onShop := func(p *rules.Policy) {
		when, err := conditions.Parse(conditions.Texts{"path": {"/shop"}})
		if err != nil {
			t.Fatal(err)
		}
		p.When = when
	}
	policies := []*rules.Policy{
		policy(t, 1, "site", "ip:*", "2/1m", challenging), policy(t, 2, "shop", "*", "1/1m", challenging, onShop), policy(t, 3, "closed", "token:*", "0/1d", challenging),
	}
	n := newNode(t, policies...)
	at := func(path string) func(*Check) {
		return func(c *Check) { c.Request = conditions.NewRequest(path, "GET", "", "") }
	}
	want := func(what string, d Decision, outcome Outcome) {
		t.Helper()
		if d.Outcome != outcome {
			t.Errorf("%s: %s, want %s", what, d.Outcome, outcome)
		}
	}
	for i, outcome := range []Outcome{Allowed, Allowed, Limited} {
		want(fmt.Sprint("request ", i), n.check(t, fmt.Sprintf("ip:203.0.113.%d", i), withPass(t, "a")), outcome)
	}
	want("another pass", n.check(t, "ip:203.0.113.1", withPass(t, "b"), at("/shop")), Allowed)
	want("another pass, beyond the limit of the shop", n.check(t, "ip:203.0.113.1", withPass(t, "b"), at("/shop")), Limited)
	for range 100 { // which refuses everything but passes
		want("closed", n.check(t, "token:t", withPass(t, "c")), Allowed)
	}
	want("closed, for a flood", n.check(t, "token:u", withPass(t, "c")), Limited)
	want("closed, without a pass", n.check(t, "token:t"), Challenged)
	n = newNode(t, append(policies, policy(t, 4, "passes", "pass:*", "3/1m"))...)
	for i, outcome := range []Outcome{Allowed, Allowed, Allowed, Limited} {
		want(fmt.Sprint("with a policy for passes, request ", i), n.check(t, "ip:203.0.113.1", withPass(t, "a"), at("/shop")), outcome)
	}
}

// Blocks that challenge let passes through, whichever key of the request they match.
func TestBlocksThatChallengeAndPasses(t *testing.T) {
	n := newNode(t, policy(t, 1, "site", "ip:*", "100/1m", func(p *rules.Policy) {
		p.Also = rules.Also{{Name: rules.Network, Bits: 24, Rules: stack(t, "1000/1m")}}
	}))
	challenge := func(id, text string) {
		n.set.Apply(&blocks.Entry{Kind: blocks.Block, ID: id, Pattern: pattern(t, text), EntryTerms: wire.EntryTerms{Action: blocks.Challenge}}, n.clock())
	}
	challenge("network", "net:203.0.113.0/24")
	d := n.check(t, "ip:203.0.113.7")
	if d.Outcome != Challenged || d.Plain() != Blocked {
		t.Errorf("a further key without a pass: %s", d.Outcome)
	}
	if d := n.check(t, "ip:203.0.113.7", withPass(t, "a")); d.Outcome != Allowed {
		t.Errorf("a further key with a pass: %s", d.Outcome)
	}
	challenge("all", "*")
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Challenged {
		t.Errorf("without a pass: %s", d.Outcome)
	}
	if d := n.check(t, "ip:203.0.113.7", withPass(t, "a")); d.Outcome != Allowed {
		t.Errorf("with a pass: %s", d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, "pass:a"), "")
	if err != nil || x.Outcome != Allowed {
		t.Errorf("the pass is explained as %s, %v", x.Outcome, err)
	}
	n.block(t, "one", "pass:a", time.Time{})
	if d := n.check(t, "ip:203.0.113.7", withPass(t, "a")); d.Outcome != Blocked {
		t.Errorf("with a blocked pass: %s", d.Outcome)
	}
}

// A row of a list that challenges applies to checks of every scope, and a block of the same pattern
// decides before it.
func TestRowsOfListsThatChallenge(t *testing.T) {
	n := newNode(t, policy(t, 1, "site", "ip:*", "100/1m"))
	n.set.Apply(&blocks.Entry{
		Kind: blocks.Block, ID: "row", Pattern: pattern(t, "ip:203.0.113.7"), EntryTerms: wire.EntryTerms{Scope: blocks.ChallengeScope, Action: blocks.Challenge}, Source: blocks.Listed, Author: blocks.ListHolder("tor"),
	}, n.clock())
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Challenged || d.Block.ScopeOfChecks() != "" {
		t.Errorf("without a pass: %s", d.Outcome)
	}
	if d := n.check(t, "ip:203.0.113.7", withPass(t, "a")); d.Outcome != Allowed {
		t.Errorf("with a pass: %s", d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, "ip:203.0.113.7"), "")
	if err != nil || x.Outcome != Challenged || x.Block == nil || x.Block.ID != "row" {
		t.Errorf("it is explained as %s, %v", x.Outcome, err)
	}
	n.block(t, "one", "ip:203.0.113.7", time.Time{})
	if d := n.check(t, "ip:203.0.113.7", withPass(t, "a")); d.Outcome != Blocked {
		t.Errorf("with a block too: %s", d.Outcome)
	}
	n.set.Apply(&blocks.Entry{Kind: blocks.Block, ID: "shadow", Pattern: pattern(t, "ip:203.0.113.8"), EntryTerms: wire.EntryTerms{Scope: blocks.ShadowScope}, Source: blocks.Listed}, n.clock())
	if x, err := n.Explain(t.Context(), key(t, "ip:203.0.113.8"), ""); err != nil || len(x.Blocks) > 0 {
		t.Errorf("a row in shadow mode is explained as a block: %+v, %v", x.Blocks, err)
	}
}

// Several keys of one request count its pass once.
func TestSeveralKeysCountAPassOnce(t *testing.T) {
	n := newNode(t, policy(t, 1, "site", "*", "100/1m"), policy(t, 2, "passes", "pass:*", "4/1d"))
	pass := key(t, "pass:a")
	for i := range 5 {
		all, err := n.DecideAll(t.Context(), []Check{{Key: key(t, "ip:203.0.113.7"), Cost: 1, Pass: pass}, {Key: key(t, "host:a"), Cost: 1, Pass: pass}})
		if err != nil {
			t.Fatal(err)
		}
		if want := i < 4; all.Allowed() != want {
			t.Errorf("request %d is %s", i, all.Outcome)
		}
	}
}

func TestAddressesEarnPasses(t *testing.T) {
	n := newNode(t, policy(t, 1, "solved", "ip:*", "1000/1d", func(p *rules.Policy) { p.Outcome = string(challenge.Solved) }))
	address := key(t, "ip:203.0.113.7")
	for i := range 3 {
		if e := n.Earn(t.Context(), address, fmt.Sprint("c", i), 3); e != (Earned{IsFirst: true}) {
			t.Errorf("pass %d: %+v", i, e)
		}
	}
	if e := n.Earn(t.Context(), address, "c2", 3); e != (Earned{}) {
		t.Errorf("a solution that is sent again at once: %+v", e)
	}
	for range 2 {
		if e := n.Earn(t.Context(), address, "c3", 3); e != (Earned{Shared: "ip:203.0.113.7"}) {
			t.Errorf("one more: %+v", e)
		}
	}
	if e := n.Earn(t.Context(), key(t, "ip:203.0.113.8"), "c2", 3); e != (Earned{}) {
		t.Errorf("a solution that another address sends again: %+v", e)
	}
	n.advance(time.Hour)
	if e := n.Earn(t.Context(), address, "c3", 3); e != (Earned{IsFirst: true}) {
		t.Errorf("after an hour: %+v", e)
	}
}

// While nothing counts solutions, those of one address make one log.
func TestSolutionsMakeNoLogsIfNothingCountsThem(t *testing.T) {
	for want, policies := range map[int][]*rules.Policy{
		1:   {policy(t, 1, "site", "ip:*", "0/1d", challenging), policy(t, 2, "failed", "ip:*", "3/1h", func(p *rules.Policy) { p.Outcome = string(challenge.Failed) })},
		101: {policy(t, 1, "solved", "ip:*", "9/1h", func(p *rules.Policy) { p.Outcome = string(challenge.Solved) })},
	} {
		n := newNode(t, policies...)
		for i := range 100 {
			if e := n.Earn(t.Context(), key(t, "ip:203.0.113.7"), fmt.Sprint(i), 300); e != (Earned{IsFirst: true}) {
				t.Errorf("solution %d: %+v", i, e)
			}
		}
		if got := n.log.(*memlog.Log).Len(); got != want {
			t.Errorf("%d logs, want %d", got, want)
		}
	}
}

func TestPassesAreEarnedWhileTheLogIsDown(t *testing.T) {
	n, log := newRemoteNode(t)
	log.down.Store(true)
	for i := range 4 {
		if e := n.Earn(t.Context(), key(t, "ip:203.0.113.7"), fmt.Sprint(i), 3); (e.Shared == "") != (i < 3) {
			t.Errorf("pass %d: %+v", i, e)
		}
	}
}

func TestAnswersAreSpentOnce(t *testing.T) {
	n, log := newRemoteNode(t)
	if !n.Spend(t.Context(), "a") || n.Spend(t.Context(), "a") || !n.Spend(t.Context(), "b") {
		t.Error("an answer is taken twice, or another one is not")
	}
	log.down.Store(true)
	if !n.Spend(t.Context(), "c") || n.Spend(t.Context(), "c") {
		t.Error("while the log is down this node forgets")
	}
}

// The policies of passes under policies that refuse everything else are not made for each check.
func BenchmarkPassOfAClosedPolicy(b *testing.B) {
	n := newNode(b, policy(b, 1, "closed", "ip:*", "0/1d", challenging))
	c := Check{Key: key(b, "ip:203.0.113.7"), Cost: 1, Pass: key(b, "pass:a")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Check(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// The policy in docs/CHALLENGE.md: passwords guessed from many addresses, one each, have those who open the form with the
// agent of the guessers challenged, and nobody else, on no other page.
func TestAFormThatManyGuessAtIsChallenged(t *testing.T) {
	byMany := func(p *rules.Policy) {
		suspicion(t, "1 outcome login_failed", "-3 outcome login_ok forgives login_failed")(p)
		var err error
		if p.Also, err = rules.ParseAlso([]string{"path 60 points/1d", "path+agent 20 points/1d"}); err != nil {
			t.Fatal(err)
		}
	}
	n := newNode(t, policy(t, 1, "default", "*", "1000/m"), policy(t, 2, "guessed-by-many", "ip:*", "1/m", byMany, challenging))
	try := func(i int, outcome string) {
		n.report(t, fmt.Sprintf("ip:198.51.100.%d", i), outcome, func(r *Report) { r.Request = conditions.NewRequest("/wp-login.php", "POST", "old", "") })
	}
	opens := func(path, agent string, want Outcome, change ...func(*Check)) {
		t.Helper()
		if d := n.check(t, "ip:203.0.113.7", append(change, forPath(path, agent))...); d.Outcome != want {
			t.Errorf("%s with the agent %s is %s, want %s", path, agent, d.Outcome, want)
		}
	}
	for i := range 19 {
		try(i, "login_failed")
	}
	opens("/wp-login.php", "old", Allowed)
	try(19, "login_failed")
	opens("/wp-login.php", "old", Challenged)
	opens("/wp-login.php", "old", Allowed, withPass(t, "a"))
	opens("/wp-login.php", "new", Allowed)
	opens("/", "old", Allowed)
	try(20, "login_ok")
	opens("/wp-login.php", "old", Allowed)
}
