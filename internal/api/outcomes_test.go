package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// report sends a report of an outcome.
func (n *testNode) report(body string) answer {
	n.Helper()
	return n.send(post, n.check+wire.PathReport, body)
}

func TestReportedOutcomesLimitChecksOfTheKey(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["100/m"]}`, "If-Match: *")
	putPolicy(n, "guessing", `{"match":["ip:*"],"when":{"path":["/login"]},"outcome":"login_failed","rules":["2/m"]}`)
	const body = `{"key":"ip:203.0.113.7","outcome":"login_failed","request":{"path":"/login?next=/","method":"POST"},"source":"app","meta":{"user":"ann"}}`
	r := read[wire.ReportedOutcome](t, n.must(n.report(body), http.StatusOK))
	if len(r.Policies) != 1 || r.Policies[0].Result != wire.ReportCharged || r.Policies[0].Refuses || r.Policies[0].Rules[0].Remaining != 1 || r.Note != "" {
		t.Fatalf("the first report: got %+v, want it charged", r)
	}
	r = read[wire.ReportedOutcome](t, n.must(n.report(body), http.StatusOK))
	if p := r.Policies[0]; !p.Refuses || p.ID != "" || !p.RetryAt.Equal(n.clock.Now().Add(time.Minute)) {
		t.Fatalf("the second report: got %+v, want that checks are refused", r)
	}
	d := read[wire.Decision](t, n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusTooManyRequests))
	if d.Policy != "guessing" || d.Conditional || *d.RetryAfterMS != 60_000 {
		t.Errorf("the check: got %+v, want it limited by guessing", d)
	}
	r = read[wire.ReportedOutcome](t, n.must(n.report(body), http.StatusOK))
	if p := r.Policies[0]; p.Result != wire.ReportFull || p.ID != d.ID {
		t.Errorf("the third report: got %+v, want the id %s of the check", r, d.ID)
	}
	x := read[wire.KeyExplanation](t, n.must(n.as(identity.Read, get, wire.PathKeys+"?key=ip:203.0.113.7", ""), http.StatusOK))
	if x.Decision != wire.Limited || len(x.Conditional) != 1 || x.Conditional[0].Outcome != "login_failed" || x.Conditional[0].Rules[0].Used != 2 {
		t.Errorf("got the explanation %+v", x)
	}
	n.clock.Add(time.Minute)
	n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK)
}

func TestUncountedReportExplainsWhy(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "guessing", `{"match":["ip:*"],"outcome":"login_failed","rules":["2/m"]}`)
	n.must(n.as(identity.Operate, post, wire.PathExemptions, `{"pattern":"ip:198.51.100.1"}`), http.StatusCreated)
	late := n.clock.Now().Add(-11 * time.Minute).Format(time.RFC3339)
	for body, note := range map[string]string{
		`{"key":"ip:203.0.113.7","outcome":"not_found"}`:                        "no policy counts not_found",
		`{"key":"token:a","outcome":"login_failed"}`:                            "applies to this key",
		`{"key":"ip:198.51.100.1","outcome":"login_failed"}`:                    "exempt by ip:198.51.100.1",
		`{"key":"ip:203.0.113.7","outcome":"login_failed","at":"` + late + `"}`: "more than 10m ago",
	} {
		r := read[wire.ReportedOutcome](t, n.must(n.report(body), http.StatusOK))
		if len(r.Policies) != 0 || !strings.Contains(r.Note, note) {
			t.Errorf("%s: got %+v, want a note with %q", body, r, note)
		}
	}
	for _, want := range []string{wire.ReportCharged, wire.ReportReplayed} {
		r := read[wire.ReportedOutcome](t, n.must(n.report(`{"key":"ip:203.0.113.7","outcome":"login_failed","id":"r-1"}`), http.StatusOK))
		if r.Policies[0].Result != want || r.Policies[0].Rules[0].Remaining != 1 {
			t.Errorf("got %+v, want the result %s", r, want)
		}
	}
}

func TestDistinctRulesCountReportedValues(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "stuffing", `{"match":["*"],"outcome":"login_failed","rules":["2/d distinct account"]}`)
	report := func(values string) *wire.ReportedOutcome {
		r := read[wire.ReportedOutcome](t, n.must(n.report(`{"key":"a","outcome":"login_failed","values":`+values+`}`), http.StatusOK))
		return &r
	}
	// Any account name from a client is counted, and is never an error.
	for _, values := range []string{`{"account":"alice"}`, `{"account":"alice"}`, `{"account":"\u0000\u202e<script>` + strings.Repeat("x", 5000) + `"}`} {
		if r := report(values); len(r.Policies) != 1 || r.Policies[0].Result != wire.ReportCharged {
			t.Errorf("%.60s: got %+v, want it charged", values, r)
		}
	}
	if r := report(`{"account":"carol"}`); r.Policies[0].Result != wire.ReportFull || r.Policies[0].Rules[0].Rule != "2/1d distinct account" {
		t.Errorf("a third account: got %+v, want the rule full", r)
	}
	for _, values := range []string{`{}`, `{"account":""}`, `{"user":"alice"}`} {
		if r := report(values); len(r.Policies) != 0 || !strings.Contains(r.Note, "different values of account") {
			t.Errorf("%s: got %+v, want a note", values, r)
		}
	}
}

func TestReportBatchAnswersInOrderWithProblems(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "guessing", `{"match":["*"],"outcome":"login_failed","rules":["2/m"]}`)
	a := n.must(n.send(post, n.check+wire.PathReportBatch, `{"reports":[
		{"key":"a","outcome":"login_failed"},{"key":"","outcome":"login_failed"},{"key":"a","outcome":"Login"},{"key":"a","outcome":"x","kee":1},5,
		{"key":"a","outcome":"login_failed"},{"key":"a","outcome":"login_failed"},{"key":"b","outcome":"other"}]}`), http.StatusOK)
	want := []string{"charged", "key", "outcome", "kee", "", "charged", "full", "note"}
	items := read[wire.OutcomeBatchAnswer](t, a).Answers
	if len(items) != len(want) {
		t.Fatalf("got %s", a.body)
	}
	for i, item := range items {
		got := ""
		switch {
		case item.Problem != nil:
			got = item.Problem.Field
		case item.Answer.Note != "":
			got = "note"
		default:
			got = item.Answer.Policies[0].Result
		}
		if got != want[i] {
			t.Errorf("item %d: got %q, want %q", i, got, want[i])
		}
	}
	batch := func(size int) string {
		return `{"reports":[` + strings.TrimSuffix(strings.Repeat(`{"key":"c","outcome":"login_failed"},`, size), ",") + `]}`
	}
	for size, status := range map[int]int{0: http.StatusUnprocessableEntity, 1000: http.StatusOK, 1001: http.StatusUnprocessableEntity} {
		n.must(n.send(post, n.check+wire.PathReportBatch, batch(size)), status)
	}
}

func TestInvalidReportsAndOutcomePoliciesAreRejected(t *testing.T) {
	n := startNode(t)
	for body, field := range map[string]string{
		`{"outcome":"a"}`:            "key",
		`{"key":"a"}`:                "outcome",
		`{"key":"a","outcome":"1a"}`: "outcome",
		`{"key":"a","outcome":"` + strings.Repeat("a", 65) + `"}`: "outcome",
		`{"key":"a","outcome":"a","id":"é"}`:                      "id",
		`{"key":"a","outcome":"a","id":"` + longID + `"}`:         "id",
		`{"key":"a","outcome":"a","at":"yesterday"}`:              "at",
		`{"key":"a","outcome":"a","request":{"color":"red"}}`:     "request.color",
		`{"key":"a","outcome":"a","source":"a\nb"}`:               "source",
		`{"key":"a","outcome":"a","meta":{` + manyMeta() + `}}`:   "meta",
		`{"key":"a","outcome":"a","cost":2}`:                      "cost",
		`{"key":"a","outcome":"a","values":{"Account":"a"}}`:      "values",
		`{"key":"a","outcome":"a","values":{` + manyMeta() + `}}`: "values",
		`{"key":"a","outcome":"a","values":{"account":5}}`:        "values.account",
	} {
		n.wantProblem(n.report(body), http.StatusUnprocessableEntity, field)
	}
	for body, field := range map[string]string{
		`{"match":["*"],"outcome":"Bad","rules":["1/s"]}`:                                                             "outcome",
		`{"match":["*"],"outcome":"a","rules":[]}`:                                                                    "rules",
		`{"match":["*"],"outcome":"a","rules":["0/s"]}`:                                                               "rules",
		`{"match":["*"],"outcome":"a","rules":["1/s"],"algorithm":"sorted_set_log","options":{"count_refused":true}}`: "options.count_refused",
	} {
		n.wantProblem(n.as(identity.Admin, put, "/v1/policies/p", body), http.StatusUnprocessableEntity, field)
	}
}

var (
	longID = strings.Repeat("x", wire.MaxID+1)
)

func manyMeta() string {
	var all []string
	for i := range wire.MaxMeta + 1 {
		all = append(all, fmt.Sprintf(`"m%d":"x"`, i))
	}
	return strings.Join(all, ",")
}

// A client chooses some values of its reports, and must not be able to keep its failures from
// being counted.
func TestReportsWithOddClientValuesAreCounted(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "guessing", `{"match":["ip:*"],"when":{"path":["/login"]},"outcome":"login_failed","rules":["1000/m"]}`)
	putPolicy(n, "accounts", `{"match":["ip:*"],"outcome":"login_failed","rules":["1000/m distinct account"]}`)
	long := strings.Repeat("x", 10_000)
	padded := strings.Repeat("/.", 5000) + "/a/%2e%2e/login"
	for what, attributes := range map[string]string{
		"a long agent":           `"request":{"path":"/login","agent":"` + long + `"}`,
		"a long method and host": `"request":{"path":"/login","method":"` + long + `","host":"` + long + `"}`,
		"a padded path":          `"request":{"path":"` + padded + `"}`,
		"a control character":    `"request":{"path":"/login","agent":"a\u0001b\nc"}`,
		"a lone surrogate":       `"request":{"path":"/login","agent":"a\ud800b"},"meta":{"user":"\udfff"}`,
		"no UTF-8":               "\"request\":{\"path\":\"/login\",\"agent\":\"a\xffb\"}",
		"a long meta":            `"request":{"path":"/login"},"meta":{"agent":"` + long + `","user":"a\u0000b"}`,
	} {
		body := `{"key":"ip:203.0.113.7","outcome":"login_failed",` + attributes + `}`
		r := read[wire.ReportedOutcome](t, n.must(n.report(body), http.StatusOK))
		if len(r.Policies) != 1 || r.Policies[0].Policy != "guessing" || r.Policies[0].Result != wire.ReportCharged {
			t.Errorf("%s: %+v", what, r)
		}
		b := read[wire.OutcomeBatchAnswer](t, n.must(n.send(post, n.check+wire.PathReportBatch, `{"reports":[`+body+`]}`), http.StatusOK))
		if b.Answers[0].Answer == nil || len(b.Answers[0].Answer.Policies) != 1 {
			t.Errorf("%s, in a batch: got the problem %+v", what, b.Answers[0].Problem)
		}
	}
	for what, values := range map[string]string{"a lone surrogate": `"alice\ud800"`, "a long value": `"` + long + `"`} {
		r := read[wire.ReportedOutcome](t, n.must(n.report(`{"key":"ip:203.0.113.7","outcome":"login_failed","values":{"account":`+values+`}}`), http.StatusOK))
		if len(r.Policies) != 1 || r.Policies[0].Policy != "accounts" {
			t.Errorf("%s: %+v", what, r)
		}
	}
	// Invalid values that the application chooses are still refused.
	for field, rest := range map[string]string{"request.scope": `"request":{"scope":"A B"}`, "values": `"values":{"A B":"c"}`, "meta": `"meta":{"` + long + `":"a"}`} {
		n.wantProblem(n.report(`{"key":"ip:203.0.113.7","outcome":"login_failed",`+rest+`}`), http.StatusUnprocessableEntity, field)
	}
}
