package gate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// counts returns a change of a policy that sets its outcome.
func counts(outcome string) func(*rules.Policy) {
	return func(p *rules.Policy) { p.Outcome = outcome }
}

// report reports an outcome of a key.
func (n *node) report(t *testing.T, text, outcome string, change ...func(*Report)) Reported {
	t.Helper()
	r := Report{Key: key(t, text), Outcome: outcome, Detail: true}
	for _, f := range change {
		f(&r)
	}
	var answers [1]Reported
	if err := n.Report(t.Context(), []Report{r}, answers[:]); err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

// wantReported checks the result of each policy.
func wantReported(t *testing.T, r Reported, want ...ReportResult) {
	t.Helper()
	var got []ReportResult
	for _, p := range r.Policies {
		got = append(got, p.Result)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the results of the report are %v, want %v", got, want)
	}
}

// namesInDNS has the names of one crawler.
type namesInDNS struct{}

func (namesInDNS) LookupAddr(_ context.Context, address string) ([]string, error) {
	if address == "66.249.64.1" {
		return []string{"crawl-1.googlebot.com."}, nil
	}
	return nil, nil
}

func (namesInDNS) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("66.249.64.1")}, nil
}

// verifyGoogle has a node verify the crawlers of Google.
func (n *node) verifyGoogle(t *testing.T) {
	t.Helper()
	operators, err := bots.ParseOperators("google")
	if err != nil {
		t.Fatal(err)
	}
	n.crawlers = bots.New(bots.Options{Operators: operators, Resolver: namesInDNS{}, Now: n.clock})
	n.bots.Verifier = n.crawlers
}

// lookUp looks up a crawler that was noticed.
func (n *node) lookUp(t *testing.T, crawler string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.crawlers.Run(ctx); close(ended) }()
	for until := time.Now().Add(time.Minute); n.crawlers.OperatorOf(key(t, crawler)) == "" && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-ended
}

// Anybody can link to an attack and have a search engine ask for it: what a verified crawler asks for is no
// evidence about it. Who only says to be one gains nothing, and neither does a verified crawler that floods.
func TestLinksAreNoEvidenceAboutAVerifiedCrawler(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "suspicion", "ip:*", "1/m", suspicion(t, "10 path /trap/*", "1 outcome not_found", "8 method GET agent *sqlmap*")))
	n.verifyGoogle(t)
	const crawler, stranger = "ip:66.249.64.1", "ip:203.0.113.7"
	n.report(t, crawler, conditions.NotFound)
	n.lookUp(t, crawler)
	ask := func(k, agent string, times int) (d Decision) {
		for i := range times {
			d = n.check(t, k, forPath(fmt.Sprint("/trap/", i), agent))
		}
		return d
	}
	const googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	if d := ask(crawler, googlebot, 5); d.Outcome != Allowed || len(d.Evidence) > 0 {
		t.Errorf("a verified crawler is %s, with %d items of evidence", d.Outcome, len(d.Evidence))
	}
	if d := ask(stranger, googlebot, 2); d.Outcome != Limited {
		t.Errorf("who says to be the crawler is %s", d.Outcome)
	}
	if d := ask(crawler, "sqlmap Googlebot", 3); d.Outcome != Limited {
		t.Errorf("evidence that is not of a link: %s", d.Outcome)
	}
}

func TestNotFoundReportsOfAVerifiedCrawlerDoNotCount(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "misses", "ip:*", "1/m", counts(conditions.NotFound)), policy(t, 3, "guessing", "ip:*", "1/m", counts("login_failed")))
	n.verifyGoogle(t)
	const crawler, stranger = "ip:66.249.64.1", "ip:203.0.113.7"
	for _, k := range []string{crawler, stranger} {
		// The first report counts, because nothing waits for DNS.
		wantReported(t, n.report(t, k, conditions.NotFound), Charged)
		if d := n.check(t, k); d.Outcome != Limited {
			t.Errorf("%s: %s before it is looked up", k, d.Outcome)
		}
	}
	n.lookUp(t, crawler)
	if r := n.report(t, crawler, conditions.NotFound); r.Crawler != "google" || len(r.Policies) > 0 {
		t.Errorf("a miss of the crawler: %+v", r)
	}
	if d := n.check(t, crawler); d.Outcome != Allowed {
		t.Errorf("the crawler is %s", d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, crawler), "")
	if err != nil || x.Crawler != "google" || x.Outcome != Allowed || len(x.Conditional) != 1 {
		t.Errorf("the explanation is %+v, %v", x, err)
	}
	// Other outcomes of the crawler count, and so do other clients.
	wantReported(t, n.report(t, crawler, "login_failed"), Charged)
	if d := n.check(t, crawler); d.Outcome != Limited || d.Policy.Name != "guessing" {
		t.Errorf("a guessing crawler is %s", d.Outcome)
	}
	if d := n.check(t, stranger); d.Outcome != Limited {
		t.Errorf("the other client is %s, want limited", d.Outcome)
	}
}

func TestReportsChargeAnOutcomePolicyAndChecksOnlyReadIt(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "guessing", "ip:*", "2/m", counts("login_failed")))
	const k = "ip:203.0.113.7"
	for range 5 { // whatever the number of checks
		if d := n.check(t, k); d.Outcome != Allowed || d.Policy.Name != "default" {
			t.Fatalf("%s by %s", d.Outcome, d.Policy.Name)
		}
	}
	r := n.report(t, k, "login_failed") // the checks before it did not charge it
	wantReported(t, r, Charged)
	if p := r.Policies[0]; p.IsFull() || p.States[0].Remaining != 1 || !p.ID.IsZero() {
		t.Errorf("after one report: %+v", p)
	}
	n.advance(10 * time.Second)
	if r = n.report(t, k, "login_failed"); !r.Policies[0].IsFull() || !r.Policies[0].ID.IsZero() {
		t.Errorf("after the second: %+v", r.Policies[0])
	}
	d := n.check(t, k)
	if d.Outcome != Limited || d.Policy.Name != "guessing" || d.RetryAfter() != 50*time.Second || d.ID.IsZero() {
		t.Fatalf("%s by %v, wait %s", d.Outcome, d.Policy, d.RetryAfter())
	}
	if used := n.used(t, k); used != 5 {
		t.Errorf("the default policy has used %d, want 5: a refused check charges nothing", used)
	}
	x, err := n.Explain(t.Context(), key(t, k), "")
	if err != nil || x.Outcome != Limited || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 2 || !x.NextAllowed.Equal(d.RetryAt) {
		t.Errorf("the explanation has %+v, %v", x, err)
	}
	// A report beyond the limit is an offence, like the refused check.
	r = n.report(t, k, "login_failed")
	wantReported(t, r, Full)
	if r.Policies[0].ID != d.ID {
		t.Errorf("the report has the refusal %q, the check of the same minute %q", r.Policies[0].ID, d.ID)
	}
	want := slices.Concat(slices.Repeat([]Outcome{Allowed}, 5*2+2), []Outcome{Limited, Limited})
	if !slices.Equal(n.recorded.outcomes, want) {
		t.Errorf("recorded %v, want %v", n.recorded.outcomes, want)
	}
	n.advance(50 * time.Second)
	if d := n.check(t, k); d.Outcome != Allowed {
		t.Errorf("after the wait: %s", d.Outcome)
	}
	if d := n.check(t, "ip:203.0.113.8"); d.Outcome != Allowed || d.Policy.Name != "default" {
		t.Errorf("another key: %s", d.Outcome)
	}
}

func TestReportThatNoPolicyCountsIsAccepted(t *testing.T) {
	when := when(t, "/login", "")
	n := newNode(t, policy(t, 1, "default", "*", "1/m"), policy(t, 2, "guessing", "ip:*", "1/m", counts("login_failed"), when))
	login := func(r *Report) { r.Request = conditions.NewRequest("/login", "POST", "", "") }
	for name, c := range map[string]struct {
		key, outcome string
		change       func(*Report)
		isCounted    bool
	}{
		"an unknown outcome": {"ip:203.0.113.7", "not_found", login, false},
		"another key":        {"token:a", "login_failed", login, true},
		"another request":    {"ip:203.0.113.7", "login_failed", func(r *Report) { r.Request = conditions.NewRequest("/api", "", "", "") }, true},
		"no request":         {"ip:203.0.113.7", "login_failed", func(*Report) {}, true},
	} {
		if r := n.report(t, c.key, c.outcome, c.change); len(r.Policies) != 0 || r.IsCounted != c.isCounted || r.IsLate || r.Exemption != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	at := func(ago time.Duration) func(*Report) {
		return func(r *Report) { r.At = n.clock().Add(-ago) }
	}
	if r := n.report(t, "ip:203.0.113.7", "login_failed", login, at(MaxReportAge+time.Millisecond)); !r.IsLate || len(r.Policies) != 0 {
		t.Errorf("a late report: %+v", r)
	}
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e", Pattern: pattern(t, "ip:198.51.100.1")}, n.clock())
	if r := n.report(t, "ip:198.51.100.1", "login_failed", login); r.Exemption == nil || len(r.Policies) != 0 {
		t.Errorf("a report about an exempt key: %+v", r)
	}
	if len(n.recorded.outcomes) != 0 {
		t.Errorf("recorded %v for reports that no policy counts, want nothing", n.recorded.outcomes)
	}
	wantReported(t, n.report(t, "ip:203.0.113.7", "login_failed", login, at(MaxReportAge)), Charged)
	wantReported(t, n.report(t, "ip:203.0.113.7", "login_failed", login, at(-time.Hour)), Full)
}

func TestReportIsChargedOnceByItsID(t *testing.T) {
	n := newNode(t, policy(t, 1, "guessing", "*", "5/m", counts("login_failed")), policy(t, 2, "few", "*", "1/m", counts("login_failed")))
	id := func(r *Report) { r.ID = "order 7" }
	wantReported(t, n.report(t, "token:a", "login_failed", id), Charged, Charged)
	r := n.report(t, "token:a", "login_failed", id)
	wantReported(t, r, Replayed, Replayed)
	if r.Policies[0].States[0].Remaining != 4 || len(n.recorded.outcomes) != 2 {
		t.Errorf("left %+v after a repeated report, recorded %v", r.Policies[0].States, n.recorded.outcomes)
	}
	wantReported(t, n.report(t, "token:a", "login_failed"), Charged, Full)
}

func TestShadowPoliciesCountReportsAndRefuseNothing(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m"), policy(t, 2, "guessing", "*", "1/m", counts("login_failed"), mode(rules.Shadow)),
		policy(t, 3, "off", "*", "1/m", counts("login_failed"), mode(rules.Off)))
	wantReported(t, n.report(t, "token:a", "login_failed"), Charged)
	if d := n.check(t, "token:a"); d.Outcome != Allowed || d.Shadow == nil || d.Shadow.Outcome != Limited || d.Shadow.Policy.Name != "guessing" {
		t.Errorf("%s, shadow %+v", d.Outcome, d.Shadow)
	}
	r := n.report(t, "token:a", "login_failed")
	if wantReported(t, r, Full); r.Policies[0].ID.IsZero() {
		t.Error("the offence under a shadow policy has no id")
	}
	if d := n.check(t, "token:b"); d.Shadow == nil || d.Shadow.Outcome != Allowed {
		t.Errorf("shadow %+v", d.Shadow)
	}
}

func TestReportsInAnOutageFollowOnFailure(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "local", "token:a", "1/m", counts("login_failed")),
		policy(t, 2, "allow", "token:a", "1/m", counts("login_failed"), onFailure(rules.FailAllow)),
		policy(t, 3, "deny", "token:b", "1/m", counts("login_failed"), onFailure(rules.FailDeny)))
	log.down.Store(true)
	r := n.report(t, "token:a", "login_failed")
	if wantReported(t, r, Charged, Lost); r.Degraded == "" {
		t.Error("Degraded is empty")
	}
	if d := n.check(t, "token:a"); d.Outcome != Limited || d.Policy.Name != "local" || d.Degraded == "" {
		t.Errorf("the check is %s by %v", d.Outcome, d.Policy)
	}
	wantReported(t, n.report(t, "token:b", "login_failed"), Lost)
	if d := n.check(t, "token:b"); d.Outcome != Unavailable {
		t.Errorf("the check is %s", d.Outcome)
	}
	n.loaded = false
	if err := n.Report(t.Context(), make([]Report, 1), make([]Reported, 1)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a node without policies: %v", err)
	}
}

func TestEveryKindOfCheckAsksPoliciesWithAnOutcome(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "10/m"), policy(t, 2, "alone", "token:*", "", mode(rules.Off)),
		policy(t, 3, "guessing", "*", "2/m", counts("login_failed")))
	// Without another policy the answer names none while there is room, because nothing was used.
	if d := n.check(t, "token:x"); d.Outcome != Allowed || d.Policy != nil && d.Policy.Name != "alone" || len(d.States) != 0 {
		t.Errorf("%s by %v", d.Outcome, d.Policy)
	}
	batch := []Report{{Key: key(t, "token:x"), Outcome: "login_failed"}, {Key: key(t, "ip:203.0.113.7"), Outcome: "login_failed"}}
	batch = append(batch, batch...)
	answers := make([]Reported, len(batch))
	if err := n.Report(t.Context(), batch, answers); err != nil {
		t.Fatal(err)
	}
	for i := range answers {
		wantReported(t, answers[i], Charged)
	}
	if d := n.check(t, "token:x"); d.Outcome != Limited || d.Policy.Name != "guessing" {
		t.Errorf("%s by %v", d.Outcome, d.Policy)
	}
	if j := n.checkAll(t, []string{"token:y", "ip:203.0.113.7"}); j.Outcome != Limited || j.Refused().Policy.Name != "guessing" {
		t.Errorf("several keys: %s", j.Outcome)
	}
	// The checks of a batch are decided in order, each by all of its policies.
	decisions, errs := make([]Decision, 12), make([]error, 12)
	n.Decide(t.Context(), checks(t, slices.Repeat([]string{"ip:198.51.100.1"}, 12)), decisions, errs)
	for i := range decisions {
		if want := i < 10; errs[i] != nil || decisions[i].Allowed() != want || decisions[i].Policy.Name != "default" {
			t.Errorf("check %d of a batch is %s by %v, %v", i, decisions[i].Outcome, decisions[i].Policy, errs[i])
		}
	}
	// A check waits for room as under any policy, but reserves nothing under this one.
	wait := func(c *Check) { c.MaxWait = time.Hour }
	for _, k := range []string{"token:x", "ip:203.0.113.7"} {
		if d := n.check(t, k, wait); d.Outcome != Allowed || d.Delay != time.Minute {
			t.Errorf("%s is %s after %s", k, d.Outcome, d.Delay)
		}
	}
	// The cost of a check does not apply to a policy with an outcome, and naming the policy
	// charges nothing.
	if d := n.check(t, "ip:203.0.113.8", func(c *Check) { c.Cost = 5 }); d.Outcome != Allowed {
		t.Errorf("a check of cost 5: %s", d.Outcome)
	}
	for i := range 4 {
		if d := n.check(t, "ip:203.0.113.9", func(c *Check) { c.Policy, c.ID = "guessing", fmt.Sprint(i) }); d.Outcome != Allowed {
			t.Errorf("check %d that names the policy: %s", i, d.Outcome)
		}
	}
}

// BenchmarkOutcomes compares checks of keys under no policy with an outcome, under one, and under
// fifteen.
func BenchmarkOutcomes(b *testing.B) {
	for _, count := range []int{0, 1, rules.MaxConditional} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			policies := []*rules.Policy{policy(b, 1, "default", "*", "100000/s")}
			for i := range count {
				policies = append(policies, policy(b, int64(i+2), fmt.Sprint("outcome-", i), "*", "20/d", counts("login_failed")))
			}
			n := newNode(b, policies...)
			n.recorder = Discard{}
			c := Check{Key: key(b, "ip:203.0.113.7"), Cost: 1}
			for b.Loop() {
				if d, err := n.Check(b.Context(), c); err != nil || d.Outcome != Allowed {
					b.Fatal(d.Outcome, err)
				}
				n.now.Add(1)
			}
		})
	}
}

// An access log shows what Stint has refused with 403 as the site's answer. A blocked client got points for
// its own refusals, and the failed logins of its network let nobody else log in.
func TestReportsOfRefusedRequestsAreNotCounted(t *testing.T) {
	for _, c := range []struct {
		name, outcome string
		block         blocks.Entry
		isCounted     bool
	}{
		{"forbidden", "forbidden", blocks.Entry{}, false},
		{"any outcome", "not_found", blocks.Entry{}, false},
		{"in a scope, with which the gateway may not ask", "login_failed", blocks.Entry{EntryTerms: wire.EntryTerms{Scope: "login"}}, true},
		{"a challenge", "login_failed", blocks.Entry{EntryTerms: wire.EntryTerms{Action: blocks.Challenge}}, true},
		{"a challenge in a scope", "login_failed", blocks.Entry{EntryTerms: wire.EntryTerms{Action: blocks.Challenge, Scope: "login"}}, true},
		{"a block that has ended", "forbidden", blocks.Entry{Expires: newNode(t).clock()}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "bad", "*", "2/d", counts(c.outcome)))
			c.block.ID, c.block.Kind, c.block.Pattern = "b1", blocks.Block, pattern(t, "ip:203.0.113.7")
			n.set.Apply(&c.block, n.clock())
			r := n.report(t, "ip:203.0.113.7", c.outcome)
			if isCounted := len(r.Policies) == 1; isCounted != c.isCounted || (r.Block == nil) != isCounted {
				t.Errorf("counted: %v, the block is %+v", isCounted, r.Block)
			}
			if r := n.report(t, "ip:203.0.113.8", c.outcome); len(r.Policies) != 1 {
				t.Errorf("of another client: %+v", r)
			}
		})
	}
	n := newNode(t, policy(t, 1, "bad", "*", "2/d", counts("forbidden")))
	n.set.Apply(&blocks.Entry{ID: "b1", Kind: blocks.Block, Pattern: pattern(t, "ip:203.0.113.7")}, n.clock())
	n.set.Apply(&blocks.Entry{ID: "e1", Kind: blocks.Exemption, Pattern: pattern(t, "ip:203.0.113.7")}, n.clock())
	if r := n.report(t, "ip:203.0.113.7", "forbidden"); r.Block != nil || r.Exemption == nil {
		t.Errorf("of an exempt client: %+v", r)
	}
}
