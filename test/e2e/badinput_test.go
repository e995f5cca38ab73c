package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// mistake is a request with one invalid field.
type mistake struct {
	name         string
	method, path string
	body         string
	status       int
	field        string // "" where no field can be named
}

var long = strings.Repeat("x", 5000)

var wrongChecks = []mistake{
	{"an empty body", post, wire.PathCheck, " ", 400, ""},
	{"no JSON", post, wire.PathCheck, "key=a", 400, ""},
	{"half a JSON", post, wire.PathCheck, `{"key":"a`, 400, "key"},
	{"two JSONs", post, wire.PathCheck, `{"key":"a"}{"key":"b"}`, 400, ""},
	{"null", post, wire.PathCheck, `null`, 422, ""},
	{"deep JSON", post, wire.PathCheck, strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), 400, ""},
	{"an oversized body", post, wire.PathCheck, `{"key":"` + strings.Repeat("x", 100<<10) + `"}`, 413, ""},
	{"an unknown field", post, wire.PathCheck, `{"key":"a","kee":"b"}`, 422, "kee"},
	{"a field twice", post, wire.PathCheck, `{"key":"a","key":"b"}`, 400, "key"},
	{"no key", post, wire.PathCheck, `{}`, 422, "key"},
	{"an empty key", post, wire.PathCheck, `{"key":""}`, 422, "key"},
	{"a key of null", post, wire.PathCheck, `{"key":null}`, 422, "key"},
	{"a number for a key", post, wire.PathCheck, `{"key":7}`, 422, "key"},
	{"a key too long", post, wire.PathCheck, `{"key":"` + long + `"}`, 422, "key"},
	{"a key that is not UTF-8", post, wire.PathCheck, "{\"key\":\"\xff\xfe\"}", 400, "key"},
	{"a key with NUL", post, wire.PathCheck, `{"key":"a\u0000b"}`, 422, "key"},
	{"a key with a line break", post, wire.PathCheck, `{"key":"a\nb"}`, 422, "key"},
	{"a key of a bad kind", post, wire.PathCheck, `{"key":"IP:203.0.113.7"}`, 422, "key"},
	{"a bad address", post, wire.PathCheck, `{"key":"ip:203.0.113.256"}`, 422, "key"},
	{"an address with leading zeros", post, wire.PathCheck, `{"key":"ip:203.000.113.007"}`, 422, "key"},
	{"a whole network", post, wire.PathCheck, `{"key":"ip:203.0.113.0/24"}`, 422, "key"},
	{"a cost of 0", post, wire.PathCheck, `{"key":"a","cost":0}`, 422, "cost"},
	{"a negative cost", post, wire.PathCheck, `{"key":"a","cost":-5}`, 422, "cost"},
	{"a fractional cost", post, wire.PathCheck, `{"key":"a","cost":0.5}`, 422, "cost"},
	{"a cost of NaN", post, wire.PathCheck, `{"key":"a","cost":NaN}`, 400, "cost"},
	{"a huge cost", post, wire.PathCheck, `{"key":"a","cost":1e308}`, 422, "cost"},
	{"a cost that overflows", post, wire.PathCheck, `{"key":"a","cost":18446744073709551617}`, 422, "cost"},
	{"a cost in quotes", post, wire.PathCheck, `{"key":"a","cost":"1"}`, 422, "cost"},
	{"a cost that no window holds", post, wire.PathCheck, `{"key":"a","cost":2}`, 422, "cost"},
	{"an unknown policy", post, wire.PathCheck, `{"key":"a","policy":"nobody"}`, 422, "policy"},
	{"an unknown detail", post, wire.PathCheck, `{"key":"a","detail":"much"}`, 422, "detail"},
	{"a peek that is not a boolean", post, wire.PathCheck, `{"key":"a","peek":"yes"}`, 422, "peek"},
	{"a long source", post, wire.PathCheck, `{"key":"a","source":"` + long + `"}`, 422, "source"},
	{"meta that is not text", post, wire.PathCheck, `{"key":"a","meta":{"n":1}}`, 422, "meta.n"},
	{"a wait that is not a string", post, wire.PathCheck, `{"key":"a","max_wait":5}`, 422, "max_wait"},
	{"a wait without a unit", post, wire.PathCheck, `{"key":"a","max_wait":"5"}`, 422, "max_wait"},
	{"a wait of 0", post, wire.PathCheck, `{"key":"a","max_wait":"0s"}`, 422, "max_wait"},
	{"a wait above an hour", post, wire.PathCheck, `{"key":"a","max_wait":"61m"}`, 422, "max_wait"},
	{"an unknown charge", post, wire.PathCheck, `{"key":"a","charge":"never"}`, 422, "charge"},
	{"usage with a wait", post, wire.PathCheck, `{"key":"a","charge":"always","max_wait":"1s"}`, 422, "charge"},
	{"an empty idempotency key", post, wire.PathCheck, `{"key":"a","idempotency_key":""}`, 422, "idempotency_key"},
	{"a long idempotency key", post, wire.PathCheck, `{"key":"a","idempotency_key":"` + strings.Repeat("x", 65) + `"}`, 422, "idempotency_key"},
	{"an idempotency key that is not ASCII", post, wire.PathCheck, `{"key":"a","idempotency_key":"é"}`, 422, "idempotency_key"},
	{"an idempotency key with a line break", post, wire.PathCheck, `{"key":"a","idempotency_key":"a\nb"}`, 422, "idempotency_key"},
	{"a number for an idempotency key", post, wire.PathCheck, `{"key":"a","idempotency_key":7}`, 422, "idempotency_key"},
	{"no keys", post, wire.PathCheck, `{"keys":[]}`, 422, "keys"},
	{"keys that are no list", post, wire.PathCheck, `{"keys":"a"}`, 422, "keys"},
	{"seventeen keys", post, wire.PathCheck, `{"keys":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, 422, "keys"},
	{"a key beside keys", post, wire.PathCheck, `{"key":"a","keys":["b"]}`, 422, "keys"},
	{"a policy beside keys", post, wire.PathCheck, `{"keys":["b"],"policy":"default"}`, 422, "policy"},
	{"a cost beside keys", post, wire.PathCheck, `{"cost":1,"keys":["b"]}`, 422, "cost"},
	{"a number among the keys", post, wire.PathCheck, `{"keys":["a",7]}`, 422, "keys[1]"},
	{"a bad address among the keys", post, wire.PathCheck, `{"keys":["a","ip:x"]}`, 422, "keys[1].key"},
	{"no key in one of the keys", post, wire.PathCheck, `{"keys":[{"cost":1}]}`, 422, "keys[0].key"},
	{"an unknown field in one of the keys", post, wire.PathCheck, `{"keys":[{"key":"a","peek":true}]}`, 422, "keys[0].peek"},
	{"a bad cost in one of the keys", post, wire.PathCheck, `{"keys":["b",{"key":"a","cost":0}]}`, 422, "keys[1].cost"},
	{"a cost among the keys that no window holds", post, wire.PathCheck, `{"keys":["b",{"key":"a","cost":2}]}`, 422, "keys[1].cost"},
	{"an unknown policy in one of the keys", post, wire.PathCheck, `{"keys":["b",{"key":"a","policy":"nobody"}]}`, 422, "keys[1].policy"},
	{"the same key twice", post, wire.PathCheck, `{"keys":["a","b","a"]}`, 422, "keys[2]"},
	{"one network twice", post, wire.PathCheck, `{"keys":["ip:2001:db8::1","ip:2001:db8::2"]}`, 422, "keys[1]"},
	{"a bad detail beside keys", post, wire.PathCheck, `{"keys":["a"],"detail":"much"}`, 422, "detail"},
	{"an unknown handle", del, wire.PathReservations + "/x", "", 404, ""},
	{"a signature that is no text", post, wire.PathCheck, `{"key":"a","request":{"headers":{"signature":7}}}`, 422, "request.headers.signature"},
	{"signatures in a list", post, wire.PathCheck, `{"key":"a","request":{"headers":{"signature-input":["a=()"]}}}`, 422, "request.headers.signature-input"},
	{"an empty batch", post, wire.PathBatch, `{"checks":[]}`, 422, "checks"},
	{"a batch that is no list", post, wire.PathBatch, `{"checks":"a"}`, 422, "checks"},
	{"a batch too large", post, wire.PathBatch, `{"checks":[` + strings.Repeat(`{"key":"a"},`, 1000) + `{"key":"a"}]}`, 422, "checks"},
	{"a report without an outcome", post, wire.PathReport, `{"key":"a"}`, 422, "outcome"},
	{"a report of a bad outcome", post, wire.PathReport, `{"key":"a","outcome":"Login failed"}`, 422, "outcome"},
	{"a report of a long outcome", post, wire.PathReport, `{"key":"a","outcome":"` + strings.Repeat("x", 65) + `"}`, 422, "outcome"},
	{"a report without a key", post, wire.PathReport, `{"outcome":"login_failed"}`, 422, "key"},
	{"a report of a bad key", post, wire.PathReport, `{"key":"a\nb","outcome":"login_failed"}`, 422, "key"},
	{"a report with an unknown field", post, wire.PathReport, `{"key":"a","outcome":"b","cost":2}`, 422, "cost"},
	{"a report with a long id", post, wire.PathReport, `{"key":"a","outcome":"b","id":"` + strings.Repeat("x", 65) + `"}`, 422, "id"},
	{"a report with an invalid time", post, wire.PathReport, `{"key":"a","outcome":"b","at":"soon"}`, 422, "at"},
	{"an oversized report", post, wire.PathReport, `{"key":"` + strings.Repeat("x", 100<<10) + `","outcome":"b"}`, 413, ""},
	{"an empty batch of reports", post, wire.PathReportBatch, `{"reports":[]}`, 422, "reports"},
	{"reports that are no list", post, wire.PathReportBatch, `{"reports":"a"}`, 422, "reports"},
	{"the wrong method", get, wire.PathCheck, "", 405, ""},
	{"the wrong path", post, "/v1/Check", `{"key":"a"}`, 404, ""},
	{"an admin path", get, wire.PathPolicies, "", 404, ""},
}

var wrongPolicies = []mistake{
	{"no rules", put, "/v1/policies/p", `{"match":["token:*"]}`, 422, "rules"},
	{"rules that are no list", put, "/v1/policies/p", `{"match":["token:*"],"rules":"1/s"}`, 422, "rules"},
	{"a rule without a window", put, "/v1/policies/p", `{"match":["token:*"],"rules":["5"]}`, 422, "rules[0]"},
	{"a rule of a negative number", put, "/v1/policies/p", `{"match":["token:*"],"rules":["-5/s"]}`, 422, "rules[0]"},
	{"a rule that overflows", put, "/v1/policies/p", `{"match":["token:*"],"rules":["99999999999999999999/s"]}`, 422, "rules[0]"},
	{"a rule above 1000T", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s","1001T/h"]}`, 422, "rules[1]"},
	{"a window that overflows", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/9223372036854775807h"]}`, 422, "rules[0]"},
	{"a window above 31 days", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/32d"]}`, 422, "rules[0]"},
	{"a window of 0", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/0s"]}`, 422, "rules[0]"},
	{"a pattern of a bad kind", put, "/v1/policies/p", `{"match":["token:*","Bad:*"],"rules":["1/s"]}`, 422, "match[1]"},
	{"a pattern of a part of an address", put, "/v1/policies/p", `{"match":["ip:10.1*"],"rules":["1/s"]}`, 422, "match[0]"},
	{"a network with host bits", put, "/v1/policies/p", `{"match":["ip:203.0.113.7/24"],"rules":["1/s"]}`, 422, "match[0]"},
	{"an unknown mode", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"mode":"sometimes"}`, 422, "mode"},
	{"an unknown on_failure", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"on_failure":"panic"}`, 422, "on_failure"},
	{"an unknown algorithm", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"algorithm":"dice"}`, 422, "algorithm"},
	{"an option of another algorithm", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"options":{"burst":5}}`, 422, "options.burst"},
	{"an unknown option", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"options":{"speed":5}}`, 422, "options.speed"},
	{"a string for a boolean option", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"algorithm":"sorted_set_log","options":{"count_refused":"yes"}}`, 422, "options.count_refused"},
	{"another name than the path's", put, "/v1/policies/p", `{"name":"q","match":["token:*"],"rules":["1/s"]}`, 422, "name"},
	{"a pattern that belongs to another", put, "/v1/policies/p", `{"match":["*"],"rules":["1/s"]}`, 409, "match[0]"},
	{"an unknown field", put, "/v1/policies/p", `{"match":["token:*"],"rules":["1/s"],"rate":5}`, 422, "rate"},
	{"a bad name", put, "/v1/policies/A%20B", `{"match":["token:*"],"rules":["1/s"]}`, 422, "name"},
	{"a policy that is not there", get, "/v1/policies/nobody", "", 404, ""},
	{"a name with NUL", get, "/v1/policies/a%00b", "", 404, ""},
	{"a name that is not UTF-8", get, "/v1/policies/%ff", "", 404, ""},
}

var wrongBlocks = []mistake{
	{"no pattern", post, wire.PathBlocks, `{"reason":"why"}`, 422, "pattern"},
	{"a network with host bits", post, wire.PathBlocks, `{"pattern":"ip:203.0.113.7/24"}`, 422, "pattern"},
	{"a bad address", post, wire.PathBlocks, `{"pattern":"ip:203.0.113"}`, 422, "pattern"},
	{"a pattern with NUL", post, wire.PathBlocks, `{"pattern":"token:a\u0000"}`, 422, "pattern"},
	{"an expiry in the past", post, wire.PathBlocks, `{"pattern":"token:a","expires_at":"2001-01-01T00:00:00Z"}`, 422, "expires_at"},
	{"an expiry that is not a time", post, wire.PathBlocks, `{"pattern":"token:a","expires_at":"tomorrow"}`, 422, "expires_at"},
	{"two expiries", post, wire.PathBlocks, `{"pattern":"token:a","expires_in":"1h","expires_at":"2100-01-01T00:00:00Z"}`, 422, "expires_in"},
	{"a duration of 0", post, wire.PathBlocks, `{"pattern":"token:a","expires_in":"0s"}`, 422, "expires_in"},
	{"a negative duration", post, wire.PathBlocks, `{"pattern":"token:a","expires_in":"-1h"}`, 422, "expires_in"},
	{"a duration that overflows", post, wire.PathBlocks, `{"pattern":"token:a","expires_in":"99999999999999999999w"}`, 422, "expires_in"},
	{"an unknown on_conflict", post, wire.PathBlocks, `{"pattern":"token:a","on_conflict":"shrug"}`, 422, "on_conflict"},
	{"a reason with NUL", post, wire.PathBlocks, `{"pattern":"token:a","reason":"a\u0000"}`, 422, "reason"},
	{"a long reason", post, wire.PathBlocks, `{"pattern":"token:a","reason":"` + long + `"}`, 422, "reason"},
	{"a block that is not there", get, wire.PathBlocks + "/nothing", "", 404, ""},
	{"an id with NUL", del, wire.PathBlocks + "/%00", "", 404, ""},
	{"an unknown state", get, wire.PathBlocks + "?state=odd", "", 422, "state"},
	{"a limit of 0", get, wire.PathBlocks + "?limit=0", "", 422, "limit"},
	{"a limit that overflows", get, wire.PathBlocks + "?limit=99999999999999999999", "", 422, "limit"},
	{"a forged cursor", get, wire.PathBlocks + "?cursor=%00%ff", "", 422, "cursor"},
	{"a search with NUL", get, wire.PathBlocks + "?search=%00", "", 422, "search"},
	{"an unknown parameter", get, wire.PathBlocks + "?page=2", "", 422, "page"},
	{"a parameter twice", get, wire.PathBlocks + "?limit=1&limit=2", "", 422, "limit"},
	{"an unknown on_conflict of an import", post, wire.PathBlockImport + "?on_conflict=fail", "[]", 422, "on_conflict"},
	{"an unknown on_conflict of an import of exemptions", post, wire.PathExemptionImport + "?on_conflict=fail", "[]", 422, "on_conflict"},
	{"an expiry of imported exemptions in the past", post, wire.PathExemptionImport + "?expires_at=2001-01-01T00:00:00Z", "[]", 422, "expires_at"},
	{"an import of exemptions that is no JSON", post, wire.PathExemptionImport, "token:a", 400, ""},
	{"an exemption of a bad pattern", post, wire.PathExemptions, `{"pattern":"ip:*.example"}`, 422, "pattern"},
	{"no key to explain", get, wire.PathKeys, "", 422, "key"},
	{"a bad key to explain", get, wire.PathKeys + "?key=ip:x", "", 422, "key"},
	{"a key to reset under an unknown policy", del, wire.PathKeys + "?key=a&policy=nobody", "", 422, "policy"},
	{"a token without a name", post, wire.PathTokens, `{"scopes":["read"]}`, 422, "name"},
	{"a token of an unknown scope", post, wire.PathTokens, `{"name":"t","scopes":["everything"]}`, 422, "scopes[0]"},
	{"a user of an unknown role", post, wire.PathUsers, `{"name":"u","role":"king","password":"correct horse battery"}`, 422, "role"},
	{"an audit entry whose id is not a number", get, wire.PathAudit + "/first", "", 404, ""},
}

func TestBadInputProblemNamesTheField(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *node{
		"embedded":    func(t *testing.T) *node { return startNode(t) },
		"distributed": func(t *testing.T) *node { return shared(t).start(t, 1)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			n.try(t, n.check, "a check with ", wrongChecks)
			n.try(t, n.admin, "a policy with ", wrongPolicies)
			n.try(t, n.admin, "a request with ", wrongBlocks)
			if page := read[wire.Page[wire.Entry]](t, n.must(http.StatusOK, get, wire.PathBlocks, "")); len(page.Items) > 0 {
				t.Errorf("bad input made %d blocks, want 0", len(page.Items))
			}
			if strings.Contains(n.log.String(), "level=ERROR") {
				t.Error("bad input is logged as an error")
			}
		})
	}
}

// try sends invalid requests to one listener and expects the problem of each.
func (n *node) try(t *testing.T, base, what string, all []mistake) {
	t.Helper()
	for _, m := range all {
		t.Run(what+m.name, func(t *testing.T) {
			headers := []string{"Authorization: Bearer " + n.token}
			p := problem(t, n.send(m.method, base+m.path, m.body, headers...), m.status)
			if p.Field != m.field || (m.status == http.StatusUnprocessableEntity && p.Field == "" && m.body != "null") {
				t.Errorf("the problem names the field %q, want %q: %s", p.Field, m.field, p.Detail)
			}
		})
	}
}

func TestNonJSONBodyIsRefusedWith415(t *testing.T) {
	n := startNode(t)
	form := url.Values{"key": {"ip:203.0.113.7"}}.Encode()
	problem(t, n.send(post, n.check+wire.PathCheck, form, "Content-Type: application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType)
	problem(t, n.as(post, wire.PathBlocks, "pattern=*", "Content-Type: text/plain"), http.StatusUnsupportedMediaType)
	problem(t, n.send(post, n.check+wire.PathCheck, `{"key":"a"}`, "Content-Encoding: gzip"), http.StatusUnsupportedMediaType)
}
