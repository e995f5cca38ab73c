package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
)

// suspicion returns a policy that sums evidence about addresses.
func suspicion(t *testing.T, items ...string) func(*rules.Policy) {
	return func(p *rules.Policy) {
		evidence, err := rules.ParseEvidence(items)
		if err != nil {
			t.Fatal(err)
		}
		if p.Rules, err = rules.ParseStack([]string{"20 points/1h", "30 points/1d"}); err != nil {
			t.Fatal(err)
		}
		p.Evidence, p.Algorithm = evidence, algorithms.PointLog
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
	}
}

func forPath(path, agent string) func(*Check) {
	return func(c *Check) { c.Request = conditions.NewRequest(path, "GET", agent, "") }
}

func reportedPath(path string) func(*Report) {
	return func(r *Report) { r.Request = conditions.NewRequest(path, "GET", "", "") }
}

func of(value string) func(*Report) {
	return func(r *Report) { r.Values = map[string]string{"account": value} }
}

var weighed = []string{
	"20 path /trap/*", "10 path /admin /manager/*", "5 agent *zgrab*", "1 distinct path path *.php",
	"4 outcome not_found distinct path", "3 outcome login_failed distinct account", "-6 outcome login_ok forgives login_failed",
}

func TestEvidenceIsWeighedAndSummed(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const k = "ip:203.0.113.7"
		allowed := func(d Decision) {
			t.Helper()
			if d.Outcome != Allowed || d.Check.Meta[EvidenceMeta] != "" {
				t.Fatalf("the check is %s, %v", d.Outcome, d.Check.Meta)
			}
		}
		allowed(n.check(t, k))
		allowed(n.check(t, k, forPath("/admin", "x zgrab/1")))                    // 15
		wantReported(t, n.report(t, k, "not_found", reportedPath("/a")), Charged) // 19
		wantReported(t, n.report(t, k, "not_found", reportedPath("/a")), Charged) // known
		allowed(n.check(t, k, forPath("/", "")))
		allowed(n.check(t, k, func(c *Check) { c.Peek = true }, forPath("/trap/x", "")))
		n.advance(time.Minute)
		d := n.check(t, k, forPath("/x.php", "")) // 20: the check that reaches the limit is refused itself
		want := "20 of 20 points in 1 hour: the path is /admin or begins with /manager/ (10); the agent contains zgrab (5); not found, each path once (4); the path ends in .php, each path once (1)."
		if d.Outcome != Limited || d.Policy.Name != "suspicion" || d.RetryAfter() != 59*time.Minute || d.Check.Meta[EvidenceMeta] != want {
			t.Fatalf("got %s by %v, wait %s: %s", d.Outcome, d.Policy, d.RetryAfter(), d.Check.Meta[EvidenceMeta])
		}
		x, err := n.Explain(t.Context(), key(t, k), "")
		if err != nil || x.Outcome != Limited || len(x.Conditional) != 1 || x.Conditional[0].Points != want || len(x.Conditional[0].Charges) != 4 || x.Conditional[0].Charges[0].For != "the path ends in .php, each path once" {
			t.Fatalf("%v: %+v", err, x.Conditional[0])
		}
		n.advance(59 * time.Minute)
		allowed(n.check(t, k, forPath("/", "")))
		if d := n.check(t, k, forPath("/trap/", "")); d.Outcome != Limited || d.Rule != 1 || d.RetryAfter() != 23*time.Hour {
			t.Fatalf("more than 30 in a day: %s by rule %d, wait %s", d.Outcome, d.Rule, d.RetryAfter())
		}
		if d := n.check(t, "ip:203.0.113.8", forPath("/trap/", "")); d.Outcome != Limited {
			t.Errorf("the first request to a trap is %s", d.Outcome)
		}
	}, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...)))
}

// Of points that do not fit into the limits only what fits is given, so that a key never has more than its limit, the
// wait is exact, and no more is taken back than was given.
func TestPointsAreClippedToTheLimits(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const k = "ip:203.0.113.7"
		wantPoints := func(k, want string, wait time.Duration) {
			t.Helper()
			d := n.check(t, k, forPath("/", ""))
			if got := d.Check.Meta[EvidenceMeta]; got != want || d.Outcome != Limited || d.RetryAfter() != wait {
				t.Errorf("%s: %s, wait %s, %q, want %q and %s", k, d.Outcome, d.RetryAfter(), got, want, wait)
			}
		}
		n.check(t, "ip:203.0.113.8", forPath("/large", "")) // more than every limit
		wantPoints("ip:203.0.113.8", "20 of 20 points in 1 hour: the path is /large (20).", time.Hour)

		if d := n.check(t, k, forPath("/admin", "")); d.Outcome != Allowed {
			t.Fatalf("15 points: %s", d.Outcome)
		}
		n.advance(time.Minute)
		wantReported(t, n.report(t, k, "login_failed"), Full) // 9, of which 5 fit
		wantPoints(k, "20 of 20 points in 1 hour: the path is /admin (15); login failed (5).", 59*time.Minute)
		wantReported(t, n.report(t, k, "login_failed"), Full) // none fits
		wantReported(t, n.report(t, k, "login_ok"), Charged)  // takes back the 5, and nothing that was not given
		if d := n.check(t, k, forPath("/", "")); d.Outcome != Allowed {
			t.Errorf("after 5 points were taken back: %s", d.Outcome)
		}
		wantReported(t, n.report(t, k, "login_failed"), Full)
		wantPoints(k, "20 of 20 points in 1 hour: the path is /admin (15); login failed (5).", 59*time.Minute)

		n.advance(59 * time.Minute) // the hour has 5, the day has 20 of 30
		n.check(t, k, forPath("/large", ""))
		x, err := n.Explain(t.Context(), key(t, k), "")
		if err != nil || len(x.Conditional) != 1 {
			t.Fatalf("%v: %+v", err, x.Conditional)
		}
		sum := 0
		for _, c := range x.Conditional[0].Charges {
			sum += c.Points
		}
		if newest := x.Conditional[0].Charges[0]; newest.Points != 10 || sum != 30 {
			t.Errorf("the newest charge has %d points, all have %d, want 10 and 30", newest.Points, sum)
		}
	}, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, "50 path /large", "15 path /admin", "9 outcome login_failed", "-9 outcome login_ok forgives login_failed")))
}

// A success takes back what failures gave, up to its points, and nothing else: people who mistype stay
// welcome, and a guesser who has one account of his own does not buy himself free of other evidence.
func TestASuccessForgivesFailuresOnly(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const k = "ip:203.0.113.7"
		n.check(t, k, forPath("/manager/html", ""))
		for i := range 3 {
			wantReported(t, n.report(t, k, "login_failed", of(fmt.Sprint("name", i))), Charged)
		}
		wantReported(t, n.report(t, k, "login_failed", of("name1")), Charged) // the same account again
		points := func(want int) {
			t.Helper()
			x, err := n.Explain(t.Context(), key(t, k), "")
			if err != nil || x.Conditional[0].Rules[0].Used != want {
				t.Fatalf("%+v points, %v, want %d", x.Conditional[0].Rules, err, want)
			}
		}
		points(19)
		wantReported(t, n.report(t, k, "login_ok"), Charged)
		points(13)
		wantReported(t, n.report(t, k, "login_ok"), Charged)
		wantReported(t, n.report(t, k, "login_ok"), Charged)
		points(10)
	}, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...)))
}

// A request that is sent again under its ID is charged once for each of its items.
func TestEvidenceOfARepeatedRequestIsChargedOnce(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const k = "ip:203.0.113.7"
		for range 3 {
			n.check(t, k, forPath("/admin", "zgrab"), func(c *Check) { c.ID = strings.Repeat("x", 64) })
		}
		if x, err := n.Explain(t.Context(), key(t, k), ""); err != nil || x.Conditional[0].Rules[0].Used != 15 {
			t.Fatalf("%+v, %v, want 15 points", x.Conditional[0].Rules, err)
		}
	}, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...)))
}

// A network is charged for all its addresses, and refused as a whole by rules of its own; evidence in
// shadow mode refuses nobody; a scope keeps what is not a login open.
func TestEvidenceOfNetworksInShadowModeAndOfAScope(t *testing.T) {
	network := also(t, "net:/24 25 points/1d")
	onEveryLog(t, func(t *testing.T, n *node) {
		for i := range 3 {
			n.check(t, fmt.Sprintf("ip:203.0.113.%d", i), forPath("/admin", ""))
		}
		d := n.check(t, "ip:203.0.113.77", forPath("/", ""))
		if d.Outcome != Limited || d.CountedKey().String() != "net:203.0.113.0/24" || !strings.HasPrefix(d.Check.Meta[EvidenceMeta], "25 of 25 points in 1 day: the path is /admin") {
			t.Fatalf("an address of the network is %s, %s, %v", d.Outcome, d.CountedKey(), d.Check.Meta)
		}
		if d := n.check(t, "ip:198.51.100.1", forPath("/", "")); d.Outcome != Allowed {
			t.Fatalf("another network is %s", d.Outcome)
		}
	}, policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...), network))
	onEveryLog(t, func(t *testing.T, n *node) {
		d := n.check(t, "ip:203.0.113.7", forPath("/trap/", ""))
		if d.Outcome != Allowed || d.Shadow == nil || d.Shadow.Outcome != Limited {
			t.Fatalf("in shadow mode: %s, %+v", d.Outcome, d.Shadow)
		}
	}, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...), mode(rules.Shadow)))
	onEveryLog(t, func(t *testing.T, n *node) {
		if d := n.check(t, "ip:203.0.113.7", forPath("/trap/", "")); d.Outcome != Allowed {
			t.Fatalf("outside of the scope: %s", d.Outcome)
		}
		if d := n.check(t, "ip:203.0.113.7", func(c *Check) { c.Request = c.Request.InScope("login") }); d.Outcome != Limited {
			t.Fatalf("in the scope: %s", d.Outcome)
		}
	}, policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...), func(p *rules.Policy) { p.Scope = "login" }))
}

// Evidence is charged beside policies with conditions and when several keys are decided as one, too.
func TestEvidenceIsChargedHoweverACheckIsDecided(t *testing.T) {
	posts := func(p *rules.Policy) {
		when, err := conditions.Parse(conditions.Texts{"method": {"GET"}})
		if err != nil {
			t.Fatal(err)
		}
		p.When = when
	}
	policies := []*rules.Policy{policy(t, 1, "default", "*", "1000/s"), policy(t, 2, "gets", "ip:*", "100/s", posts), policy(t, 3, "suspicion", "ip:*", "", suspicion(t, weighed...))}
	onEveryLog(t, func(t *testing.T, n *node) {
		if d := n.check(t, "ip:203.0.113.7", forPath("/trap/", "")); d.Outcome != Limited || d.Policy.Name != "suspicion" {
			t.Fatalf("beside a policy with conditions: %s", d.Outcome)
		}
		if c := n.checkAll(t, []string{"ip:203.0.113.8", "account:a"}, forPath("/trap/", "")); c.Outcome != Limited || !strings.HasPrefix(c.Refused().Check.Meta[EvidenceMeta], "20 of 20") {
			t.Fatalf("with several keys: %s", c.Outcome)
		}
	}, policies...)
}

// BenchmarkEvidence compares checks that describe their request under the preset website, whose evidence
// has some 1,000 patterns in its lists, with those under its limits of requests alone.
func BenchmarkEvidence(b *testing.B) {
	preset, found := presets.Find("website")
	if !found {
		b.Fatal("there is no preset website")
	}
	for i, p := range preset.Policies {
		p.ID = int64(i + 1)
	}
	for name, policies := range map[string][]*rules.Policy{"without": preset.Policies[:1], "with": preset.Policies} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b, policies...)
			c := Check{Key: key(b, "ip:203.0.113.7"), Cost: 1}
			for i := 0; b.Loop(); i++ {
				if i%50 == 0 {
					n.advance(time.Second)
				}
				c.Request = conditions.NewRequest("/articles/2026/november/a-long-title", "GET", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "example.org")
				if d, err := n.Check(b.Context(), c); err != nil || d.Outcome != Allowed {
					b.Fatal(d.Outcome, err)
				}
			}
		})
	}
}

// An internal address that shows several browsers is a proxy that nobody named: what its people ask for is no
// evidence against all of them, also what they asked for before it was recognized.
func TestInternalAddressesOfManyPeopleGetNoPoints(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const proxy, person = "ip:172.17.0.1", "ip:172.17.0.9"
		browsers := []string{"Mozilla/5.0 (X11) A/1", "Mozilla/5.0 (X11) A/2", "Mozilla/5.0 (Macintosh) B/1", "Mozilla/5.0 (iPhone) C/1"}
		for i := range 6 {
			n.check(t, proxy, forPath("/trap/x", browsers[0]))
			n.check(t, person, forPath("/trap/x", browsers[i%2]))
		}
		if d := n.check(t, proxy); d.Outcome != Limited {
			t.Fatalf("before it is recognized, an address that asks for traps is %s", d.Outcome)
		}
		for _, agent := range browsers {
			n.check(t, proxy, forPath("/", agent))
		}
		for range 5 {
			if d := n.check(t, proxy, forPath("/trap/x", browsers[1])); d.Outcome != Allowed || len(d.Evidence) > 0 {
				t.Fatalf("a proxy whose people ask for traps is %s by %v", d.Outcome, d.Evidence)
			}
			if a := n.report(t, proxy, "login_failed", of("a")); !a.IsShared || len(a.Policies) > 0 {
				t.Fatalf("a report about a proxy is counted: %+v", a)
			}
		}
		if x, err := n.Explain(t.Context(), key(t, proxy), ""); err != nil || !x.IsShared || x.Outcome != Allowed {
			t.Fatalf("%v: %+v", err, x)
		}
		if d := n.check(t, person); d.Outcome != Limited {
			t.Fatalf("a person with two browsers who asks for traps is %s", d.Outcome)
		}
	}, policy(t, 1, "default", "*", "100/1d"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...)))
}

// Thousands of people are behind the edge of a content delivery network: it gets no points, and the
// explanation says what it is. What it asks is limited as before.
func TestEdgesOfContentDeliveryNetworksGetNoPoints(t *testing.T) {
	onEveryLog(t, func(t *testing.T, n *node) {
		const edge = "ip:172.71.10.20"
		for range 5 {
			if d := n.check(t, edge, forPath("/trap/x", "")); d.Outcome != Allowed {
				t.Fatalf("an edge that asks for a trap is %s", d.Outcome)
			}
			n.report(t, edge, "login_failed", of("a"))
		}
		x, err := n.Explain(t.Context(), key(t, edge), "")
		if err != nil || !x.IsShared || x.Outcome != Allowed {
			t.Fatalf("%v: %+v", err, x)
		}
		for range 20 {
			n.check(t, edge)
		}
		if d := n.check(t, edge); d.Outcome != Limited || d.Policy.Name != "default" {
			t.Fatalf("an edge beyond the limit of its own policy is %s by %v", d.Outcome, d.Policy)
		}
	}, policy(t, 1, "default", "*", "25/1d"), policy(t, 2, "suspicion", "ip:*", "", suspicion(t, weighed...)))
}
