package adminui_test

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// report reports an outcome of a key several times.
func (n *node) report(t testing.TB, key, outcome string, times int) {
	t.Helper()
	k, err := keys.Parser{}.Key(key)
	must(t, err)
	for range times {
		var answers [1]gate.Reported
		must(t, n.gate.Report(t.Context(), []gate.Report{{Key: k, Outcome: outcome}}, answers[:]))
	}
}

// put adds or changes a policy, by default for every address.
func (n *node) put(t testing.TB, p rules.Policy, limits ...string) {
	t.Helper()
	p.Rules, p.Mode, p.Algorithm, p.OnFailure = stack(t, limits...), cmp.Or(p.Mode, rules.Enforce), algorithms.TimestampLog, rules.FailLocal
	if p.Match == nil {
		p.Match = []keys.Pattern{pattern(t, "ip:*")}
	}
	_, err := n.store.Policies.PutPolicy(t.Context(), audit.SystemActor("test"), &p, etag.Any)
	must(t, err)
}

// putGuessing adds policies that apply in addition: one that counts failed logins, one that
// counts them for the checks of a scope, and traps.
func (n *node) putGuessing(t testing.TB) {
	t.Helper()
	n.count(t, algorithms.TimestampLog, algorithms.Options{}, "50/s")
	blocks := rules.Escalation{Threshold: 5, Window: time.Hour, Duration: time.Hour, Factor: 4, MaxDuration: 24 * time.Hour, DecayAfter: 24 * time.Hour}
	n.put(t, rules.Policy{Name: "guessing", Outcome: "login_failed", Escalation: &blocks}, "3/h")
	n.put(t, rules.Policy{Name: "login", Outcome: "login_failed", Scope: "login", Escalation: &blocks}, "2/d")
	n.as(t, "maria").post("/presets/traps", map[string][]string{"mode": {"enforce"}}).is(http.StatusSeeOther)
}

func TestKeyPageMatchesCheckDecision(t *testing.T) {
	const key = "ip:192.0.2.20"
	n := newNode(t)
	n.putGuessing(t)
	v := n.as(t, "vic")
	v.get("/key?key=" + key).is(http.StatusOK).says("Allowed under policy default. 50 requests allowed now.")
	n.report(t, key, "login_failed", 2)
	v.get("/key?key=" + key).is(http.StatusOK).says("Allowed under policy default. 50 requests allowed now.").says("refuses them")
	n.report(t, key, "login_failed", 2)
	n.flush(t)
	page := v.get("/key?key=" + key).is(http.StatusOK).says("Limited by 3/h of policy guessing. The next request is allowed in 1 h").says("limiting now of guessing")
	if marks := strings.Count(page.body, "limiting now"); marks != 1 {
		t.Errorf("%d rules are marked \"limiting now\", want 1", marks)
	}
	// An own limit replaces the rules of the key's policy, and not those of the policy that refuses it.
	_, err := n.store.Profiles.PutLimit(t.Context(), audit.SystemActor("test"), key, &profiles.Limit{Rules: stack(t, "1/h"), Reason: "r", Author: "a"})
	must(t, err)
	v.get("/key?key=" + key).is(http.StatusOK).says("of policy guessing.")
	n.ask(t, "ip:192.0.2.21")
	_, err = n.store.Profiles.PutLimit(t.Context(), audit.SystemActor("test"), "ip:192.0.2.21", &profiles.Limit{Rules: stack(t, "1/h"), Reason: "r", Author: "a"})
	must(t, err)
	v.get("/key?key=ip:192.0.2.21").is(http.StatusOK).says("Limited by 1/h of its own limit.")
	// The network is full by the reports of another address.
	n.put(t, rules.Policy{Name: "guessing", Outcome: "login_failed", Also: also(t, "net:/24 6/h")}, "3/h")
	n.report(t, "ip:192.0.2.22", "login_failed", 3)
	n.report(t, "ip:192.0.2.23", "login_failed", 3)
	v.get("/key?key=ip:192.0.2.24").is(http.StatusOK).says("Limited by 6/h of policy guessing for the further key net:192.0.2.0/24.")
}

func also(t testing.TB, texts ...string) rules.Also {
	t.Helper()
	all, err := rules.ParseAlso(texts)
	must(t, err)
	return all
}

func TestKeyPageWithoutMatchingPolicyShowsAllowed(t *testing.T) {
	n := newNode(t)
	n.put(t, rules.Policy{Name: "default", Match: []keys.Pattern{pattern(t, "token:*")}}, "5/m")
	v := n.as(t, "vic")
	v.get("/key?key=ip:192.0.2.20").is(http.StatusOK).says("Allowed because no policy applies to it.")
	n.put(t, rules.Policy{Name: "login", Outcome: "login_failed", Scope: "login"}, "5/d")
	v.get("/key?key=ip:192.0.2.20").is(http.StatusOK).says("Allowed because no policy refuses every request of it.").lacks("allowed now")
}

func TestKeyPageNamesPolicyOfEachAutomaticBlock(t *testing.T) {
	const key = "ip:192.0.2.20"
	n := newNode(t)
	n.putGuessing(t)
	n.report(t, key, "login_failed", 7) // login allows two of them
	n.flush(t)
	n.report(t, key, "login_failed", 1) // blocked by login since
	page := n.as(t, "vic").get("/key?key=" + key).is(http.StatusOK)
	page.says("Automatic blocks of login blocked now in the scope login").says("Automatic blocks of guessing not blocked now").says("Automatic blocks of traps not blocked now")
	n.report(t, key, "login_failed", 2)
	n.flush(t)
	page = n.as(t, "vic").get("/key?key=" + key).is(http.StatusOK)
	page.says("Automatic blocks of login blocked now in the scope login").says("Automatic blocks of guessing blocked now").says("Automatic blocks of traps blocked now by another block")
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	b.screens("key-guessing", "/key?key="+key)
	n.report(t, "ip:192.0.2.21", "login_failed", 4)
	b.screens("key-guessing-limited", "/key?key=ip:192.0.2.21")
	b.consoleIsClean()
}
