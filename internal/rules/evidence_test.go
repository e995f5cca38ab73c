package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

func TestEvidenceHasACanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"2 outcome not_found distinct path":         "2 outcome not_found distinct path",
		"  20 points path  /b /a  method GET":       "20 path /a /b method get",
		"1 point agent \"x y*\" distinct path":      "1 agent \"x y*\" distinct path",
		"5 path not /static/* path2":                "",
		"5 path not /static/* /a*":                  "5 path /a* not /static/*",
		"-6 outcome login_ok forgives login_failed": "-6 outcome login_ok forgives login_failed",
		"10 host \"method\" outcome not_found":      "10 outcome not_found host \"method\"",
	} {
		items, err := rules.ParseEvidence([]string{text})
		if want == "" {
			if err == nil {
				t.Errorf("%q is %q", text, items.Strings())
			}
			continue
		}
		if err != nil || !slices.Equal(items.Strings(), []string{want}) {
			t.Errorf("%q is %q, %v, want %q", text, items.Strings(), err, want)
			continue
		}
		if again, err := rules.ParseEvidence(items.Strings()); err != nil || !slices.Equal(again.Strings(), items.Strings()) {
			t.Errorf("the canonical form %q reads as %q, %v", want, again.Strings(), err)
		}
	}
}

func TestBadEvidenceSaysWhatWouldBeRight(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "is empty; write for example",
		"path /a":                               "must begin with points",
		"0 path /a":                             "must begin with points",
		"1001 path /a":                          "1 to 1000",
		"5":                                     "charges every request the same",
		"5 path":                                "no pattern after path",
		"5 path /a path /b":                     "says path twice",
		"5 path a":                              "begin with / or *",
		"5 outcome":                             "no name after outcome",
		"5 outcome a b":                         "has \"b\", where path",
		"5 when path /a":                        "where path, method, agent, host, scheme, ja4, country, asn, bot, category, verified, header:NAME, query:NAME, cookie:NAME, outcome, distinct or forgives is expected",
		"5 outcome Not-Found":                   "a-z, 0-9",
		"-5 outcome login_ok":                   "does not say of which outcome",
		"-5 path /a forgives login_failed":      "only a reported outcome can",
		"5 outcome login_ok forgives x":         "needs points below zero",
		"5 agent \"x":                           "no closing one",
		"-5 outcome a forgives b distinct path": "distinct has no meaning",
	} {
		if _, err := rules.ParseEvidence([]string{"1 path /ok", text}); err == nil || !strings.HasPrefix(err.Error(), "evidence[1] ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error of evidence[1] with %q", text, err, want)
		}
	}
}

func TestAPolicyWithEvidenceCountsPoints(t *testing.T) {
	valid := func() *rules.Policy {
		items, err := rules.ParseEvidence([]string{"4 outcome not_found distinct path", "3 outcome login_failed", "-3 outcome login_ok forgives login_failed"})
		stack, err2 := rules.ParseStack([]string{"20 points/1h", "30 points/1d"})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return &rules.Policy{Name: "suspicion", Match: patterns(t, "ip:*"), Evidence: items, Rules: stack, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: rules.AlgorithmFor(stack, nil)}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*rules.Policy)
		field  string
	}{
		"no evidence":         {func(p *rules.Policy) { p.Evidence = nil }, "evidence"},
		"rules of requests":   {func(p *rules.Policy) { p.Rules, _ = rules.ParseStack([]string{"20/1h"}) }, "rules"},
		"no rules":            {func(p *rules.Policy) { p.Rules = nil }, "rules"},
		"an outcome":          {func(p *rules.Policy) { p.Outcome = "not_found" }, "evidence"},
		"another algorithm":   {func(p *rules.Policy) { p.Algorithm = algorithms.AmountLog }, "algorithm"},
		"the same item twice": {func(p *rules.Policy) { p.Evidence, _ = rules.ParseEvidence([]string{"4 outcome a", "5 outcome a"}) }, "evidence[1]"},
		"forgives what is not": {func(p *rules.Policy) {
			p.Evidence, _ = rules.ParseEvidence([]string{"4 outcome a", "-5 outcome b forgives c"})
		}, "evidence[1]"},
		"further keys of requests": {func(p *rules.Policy) { p.Also, _ = rules.ParseAlso([]string{"net:/24 9/d"}) }, "also"},
	} {
		p := valid()
		c.change(p)
		if err := p.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.field+" ") {
			t.Errorf("%s: %v, want an error of %s", name, err, c.field)
		}
	}
	plain := valid()
	plain.Evidence, plain.Rules = nil, nil
	if err := plain.Validate(); err == nil {
		t.Error("the log of points without evidence is valid")
	}
	if got := valid().Describe(); got != "Refused from 20 points in any hour, or 30 in any day." {
		t.Error(got)
	}
	want := "Sums points of what the requests of a key show: 4 for not found, each path once; 3 for login failed; login ok takes back up to 3 of login failed. " +
		"While they reach a limit, every check of the key is refused, in addition to the key's own policy."
	if got := valid().DescribeApplies(); got != want {
		t.Error(got)
	}
	if _, err := rules.ParseStack(rules.SplitRules("20 points/1h, 30 points/1d")); err != nil {
		t.Error(err)
	}
}
