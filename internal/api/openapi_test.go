package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// described sends requests and validates each, and its response, against openapi.json.
type described struct {
	*testNode
	*readDocument
	seen map[string]bool
}

// readDocument is openapi.json, read once: it is large, and creating its validator is slow.
type readDocument struct {
	text       string
	document   validator.Validator
	operations map[string]describedAnswers // by the operation's id
	responses  describedAnswers            // that operations refer to
}

// describedAnswers are answers by status or name.
type describedAnswers = map[string]struct {
	Ref     string `json:"$ref"`
	Headers map[string]any
}

// lastRead is the document of the previous node: usually this node's is the same.
var lastRead *readDocument

func newDescribed(t *testing.T, n *testNode) *described {
	t.Helper()
	a := n.send(http.MethodGet, n.admin+"/openapi.json", "")
	if a.status != http.StatusOK { // the log contains what is not described
		t.Fatalf("got %d: %s", a.status, n.logged)
	}
	if lastRead == nil || lastRead.text != a.body {
		lastRead = readOpenAPI(t, a.body)
	}
	return &described{testNode: n, readDocument: lastRead, seen: map[string]bool{}}
}

func readOpenAPI(t *testing.T, text string) *readDocument {
	t.Helper()
	document, err := libopenapi.NewDocument([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if valid, problems := v.ValidateDocument(); !valid {
		for _, p := range problems {
			t.Errorf("openapi.json: %s: %s", p.Message, p.Reason)
			for _, s := range p.SchemaValidationErrors {
				t.Errorf("  %+v", s)
			}
		}
		t.FailNow()
	}
	var parts struct {
		Paths      map[string]map[string]jsontext.Value
		Components struct{ Responses describedAnswers }
	}
	if err := json.Unmarshal([]byte(text), &parts, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	d := &readDocument{text: text, document: v, operations: map[string]describedAnswers{}, responses: parts.Components.Responses}
	for _, item := range parts.Paths {
		for _, text := range item {
			var operation struct {
				OperationID string
				Responses   describedAnswers
			}
			if text.Kind() == '{' && json.Unmarshal(text, &operation, json.MatchCaseInsensitiveNames(true)) == nil {
				d.operations[operation.OperationID] = operation.Responses
			}
		}
	}
	return d
}

// do sends a request for the operation id and validates both sides.
func (d *described) do(id, method, path, body string, status int, headers ...string) answer {
	d.Helper()
	base := d.admin
	if strings.HasPrefix(path, wire.PathCheck) || strings.HasPrefix(path, wire.PathReservations) || strings.HasPrefix(path, wire.PathHolds) || path == wire.PathReport || path == wire.PathReportBatch {
		base = d.check
	}
	a := d.as(administer, method, path, body, headers...)
	if base == d.check {
		a = d.send(method, base+path, body, headers...)
	}
	d.must(a, status)
	request, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer x")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	if status < http.StatusBadRequest {
		if valid, problems := d.document.ValidateHttpRequest(request); !valid {
			d.report(id, "request "+body, problems)
		}
	}
	d.wantDescribed(id, path, a)
	request.Body = io.NopCloser(strings.NewReader(body))
	response := &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader([]byte(a.body)))}
	if valid, problems := d.document.ValidateHttpResponse(request, response); !valid {
		d.report(id, "answer "+a.body, problems)
	}
	d.seen[id] = true
	return a
}

// generalHeaders are not described: they belong to HTTP, not to an operation.
var generalHeaders = []string{
	"Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type", "Date",
	"Transfer-Encoding", "Vary", "X-Accel-Buffering", "X-Content-Type-Options",
}

// wantDescribed requires that the document describes the status and the headers of an
// answer.
func (d *described) wantDescribed(id, path string, a answer) {
	d.Helper()
	responses, found := d.operations[id]
	if !found {
		d.Errorf("openapi.json has no operation %s", id)
		return
	}
	described, found := responses[strconv.Itoa(a.status)]
	if !found {
		d.Errorf("%s: openapi.json does not describe the status %d of %s", id, a.status, path)
		return
	}
	if described.Ref != "" {
		described = d.responses[described.Ref[strings.LastIndexByte(described.Ref, '/')+1:]]
	}
	for name := range a.header {
		isDescribed := slices.ContainsFunc(slices.Collect(maps.Keys(described.Headers)), func(h string) bool { return http.CanonicalHeaderKey(h) == name })
		if !isDescribed && !slices.Contains(generalHeaders, name) {
			d.Errorf("%s: openapi.json does not describe the header %s of the status %d", id, name, a.status)
		}
	}
}

func (d *described) report(id, what string, problems any) {
	d.Helper()
	d.Errorf("%s: openapi.json does not describe the %s: %s", id, what, fmt.Sprintf("%+v", problems))
}

type memoryBackups struct{ held []byte }

func (m *memoryBackups) Backup(_ context.Context, w io.Writer) error {
	_, err := w.Write(m.held)
	return err
}

func (m *memoryBackups) Verify(_ context.Context, r io.Reader) (string, error) {
	_, err := io.Copy(io.Discard, r)
	return "It is whole.", err
}

func (m *memoryBackups) Restore(_ context.Context, _ audit.Actor, r io.Reader) (string, error) {
	all, err := io.ReadAll(r)
	m.held = all
	return fmt.Sprintf("%d bytes", len(all)), err
}

func TestOpenAPIMatchesEveryOperation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		d := newDescribed(t, n)
		d.do("live", get, "/livez", "", 200)
		d.do("ready", get, "/readyz", "", 200)
		d.do("whoami", get, "/v1/whoami", "", 200)
		d.do("version", get, "/v1/version", "", 200)
		if err := n.store.Nodes.PutNode(t.Context(), nodes.Node{ID: "a-1", Name: "a", Version: "dev", Started: start, Seen: start, PerSecond: 7.5}); err != nil {
			t.Fatal(err)
		}
		d.do("listNodes", get, "/v1/nodes", "", 200)
		if err := n.store.Bouncers.PutBouncer(t.Context(), bouncers.Bouncer{
			ID:      bouncers.ID{TokenID: "1", Address: netip.MustParseAddr("192.0.2.1"), Type: "crowdsec-firewall-bouncer"},
			Version: "v0.0.25", Mode: bouncers.Stream, First: start, Last: start, Sent: 7,
		}); err != nil {
			t.Fatal(err)
		}
		d.do("listBouncers", get, "/v1/bouncers", "", 200)
		d.do("listCrawlers", get, "/v1/crawlers", "", 200)
		d.do("correctSite", put, "/v1/sites", `{"host":"shop.example.org","own_paths":["/phpmyadmin/*"]}`, 204)
		d.do("correctSite", put, "/v1/sites", `{"host":"a b","own_paths":[]}`, 422)
		d.do("correctSite", put, "/v1/sites", `{"host":"shop.example.org","own_paths":["@nolist"]}`, 422)
		d.do("listSites", get, "/v1/sites", "", 200)
		d.do("getBots", get, "/v1/bots?last=1h", "", 200)
		d.do("getBots", get, "/v1/bots?last=30d", "", 422)

		d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.7","policy":"default","cost":1,"peek":false,"detail":"rules","source":"edge-1","meta":{"path":"/search"}}`, 200)
		limited := read[wire.Decision](t, d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.7"}`, 429))
		d.do("check", post, "/v1/check", `{"key":""}`, 422)
		d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.99","policy":"default","cost":5000,"charge":"always"}`, 429)
		reserved := read[wire.Decision](t, d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.7","max_wait":"1h","idempotency_key":"a-1"}`, 200))
		d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.7","max_wait":"1h","idempotency_key":"a-1"}`, 200)
		d.do("cancelReservation", del, "/v1/reservations/"+reserved.Reservation.Handle, "", 200)
		d.do("cancelReservation", del, "/v1/reservations/nothing", "", 404)
		d.do("putPolicy", put, "/v1/policies/token-budgets", `{"match":["team:*"],"unit":"tokens","rules":["1M/1d","4 concurrent"],"cost":2000,"hold":"30s","on_expiry":"release"}`, 201, "If-Match: *")
		holding := read[wire.Decision](t, d.do("check", post, "/v1/check", `{"key":"team:a","cost":4000,"hold":"10m"}`, 200)).Hold.Handle
		d.do("extendHold", post, "/v1/holds/"+holding+"/extend", `{"hold":"20m"}`, 200)
		d.do("settleHold", post, "/v1/holds/"+holding, `{"cost":3100}`, 200)
		d.do("settleHold", post, "/v1/holds/"+holding, `{"cost":3101}`, 409)
		d.do("releaseHold", del, "/v1/holds/"+read[wire.KeysDecision](t, d.do("check", post, "/v1/check", `{"keys":["team:a","team:b"],"hold":"10m"}`, 200)).Hold.Handle, "", 200)
		d.do("releaseHold", del, "/v1/holds/nothing", "", 404)
		d.do("check", post, "/v1/check", `{"keys":["a:1",{"key":"a:2","policy":"default","cost":1}],"peek":false,"detail":"none","source":"edge-1","meta":{"path":"/"},"max_wait":"5s","idempotency_key":"a-2"}`, 200)
		d.do("check", post, "/v1/check", `{"keys":["a:5"],"peek":true,"charge":"always"}`, 200)
		d.do("check", post, "/v1/check", `{"keys":["a:1","a:3"]}`, 429)
		d.do("check", post, "/v1/check", `{"keys":["a:1","a:1"]}`, 422)
		d.do("checkBatch", post, "/v1/check/batch", `{"checks":[{"key":"a"},{"key":"b","cost":7}]}`, 200)

		d.do("putPolicy", put, "/v1/policies/guessing", `{"match":["*"],"when":{"path":["/login"],"method":["POST"],"agent":["*"],"host":["*"]},"outcome":"login_failed","rules":["1/h"]}`, 201)
		const reported = `{"key":"ip:203.0.113.5","outcome":"login_failed","request":{"path":"/login","method":"POST","agent":"curl","host":"example.org"},"at":"2026-01-01T00:00:00Z","source":"app","meta":{"user":"ann"},"id":"r-1"}`
		d.do("reportOutcome", post, "/v1/report", reported, 200)
		d.do("reportOutcome", post, "/v1/report", strings.Replace(reported, `"at":"2026-01-01T00:00:00Z",`, "", 1), 200)
		d.do("reportOutcome", post, "/v1/report", `{"key":"ip:203.0.113.5","outcome":"Login"}`, 422)
		d.do("reportOutcome", post, "/v1/report", `{"key":"ip:203.0.113.5","status":404,"request":{"path":"/old","method":"GET","host":"shop.example.org"}}`, 200)
		d.do("reportOutcome", post, "/v1/report", `{"key":"ip:203.0.113.5","status":404,"outcome":"error"}`, 422)
		d.do("reportOutcome", post, "/v1/report", `{"key":"ip:203.0.113.5","status":42}`, 422)
		d.do("reportOutcomes", post, "/v1/report/batch", `{"reports":[`+strings.NewReplacer(`"at":"2026-01-01T00:00:00Z",`, "", "r-1", "r-2").Replace(reported)+`,{"key":"","outcome":"a"}]}`, 200)
		d.do("explainKey", get, "/v1/keys?key=ip:203.0.113.5", "", 200)
		d.do("deletePolicy", del, "/v1/policies/guessing", "", 204, n.ifMatch("/v1/policies/guessing"))
		d.do("deletePolicy", del, "/v1/policies/token-budgets", "", 204, n.ifMatch("/v1/policies/token-budgets"))
		d.do("putPolicy", put, "/v1/policies/trial", `{"match":["*"],"rules":["1/s","20/s"],"mode":"shadow","escalation":{"threshold":3,"window":"10m","duration":"1h","factor":1.5,"max_duration":"7d","decay_after":"30d"}}`, 201)
		d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.8"}`, 200)
		d.do("putPolicy", put, "/v1/policies/trial", `{"match":["*"],"rules":["0/s"],"mode":"shadow"}`, 200, n.ifMatch("/v1/policies/trial"))
		d.do("check", post, "/v1/check", `{"key":"ip:203.0.113.9"}`, 200)
		d.do("putPolicy", put, "/v1/policies/trial", `{"match":["*"],"rules":[]}`, 428)
		d.do("listAlgorithms", get, "/v1/algorithms", "", 200)
		d.do("listConditionLists", get, "/v1/lists", "", 200)
		d.do("getConditionList", get, "/v1/lists/secrets", "", 200)
		d.do("getConditionList", get, "/v1/lists/nothing", "", 404)
		d.do("listPolicies", get, "/v1/policies", "", 200)
		d.do("listPolicies", get, "/v1/policies?search=TRI&order=updated&limit=1", "", 200)
		d.do("getPolicy", get, "/v1/policies/trial", "", 200)
		d.do("getPolicy", get, "/v1/policies/nobody", "", 404)
		d.do("listPolicyVersions", get, "/v1/policies/trial/versions", "", 200)
		d.do("deletePolicy", del, "/v1/policies/trial", "", 204, n.ifMatch("/v1/policies/trial"))

		block := read[wire.AddedEntry](t, d.do("addBlock", post, "/v1/blocks", `{"pattern":"ip:2001:db8::1","reason":"scraping","expires_in":"24h","on_conflict":"fail"}`, 201))
		d.do("addBlock", post, "/v1/blocks", `{"pattern":"ip:2001:db8::1"}`, 409)
		d.do("addBlock", post, "/v1/blocks", `{"pattern":"ip:2001:db8::1","expires_at":"2030-01-01T00:00:00Z","on_conflict":"extend"}`, 200)
		d.do("check", post, "/v1/check", `{"key":"ip:2001:db8::2"}`, 403)
		exemption := read[wire.AddedEntry](t, d.do("addExemption", post, "/v1/exemptions", `{"pattern":"ip:2001:db8::2/128"}`, 201))
		d.do("check", post, "/v1/check", `{"key":"ip:2001:db8::2"}`, 200)
		d.do("explainKey", get, "/v1/keys?key=ip:2001:db8::2", "", 200)
		d.do("listKeyRequests", get, "/v1/keys/requests/ip:203.0.113.7", "", 200)
		d.do("explainKey", get, "/v1/keys?key=ip:203.0.113.7&policy=default", "", 200)
		d.do("listBlocks", get, "/v1/blocks?state=all&source=manual&author=test-admin&search=db8&order=expiry&limit=10", "", 200)
		d.do("getBlock", get, "/v1/blocks/"+block.ID, "", 200)
		d.do("changeBlock", patch, "/v1/blocks/"+block.ID, `{"reason":"other","expires_in":"1h"}`, 200)
		d.do("changeBlock", patch, "/v1/blocks/"+block.ID, `{"expires_at":null}`, 200)
		d.do("endBlock", del, "/v1/blocks/"+block.ID, `{"reason":"over"}`, 200)
		d.do("restoreBlock", post, "/v1/blocks/"+block.ID+"/restore", "", 200)
		d.do("listExemptions", get, "/v1/exemptions?state=active", "", 200)
		d.do("getExemption", get, "/v1/exemptions/"+exemption.ID, "", 200)
		d.do("changeExemption", patch, "/v1/exemptions/"+exemption.ID, `{"reason":"other"}`, 200)
		d.do("endExemption", del, "/v1/exemptions/"+exemption.ID+"?reason=over", "", 200)
		d.do("restoreExemption", post, "/v1/exemptions/"+exemption.ID+"/restore", "", 200)
		d.do("resetKey", del, "/v1/keys?key=ip:203.0.113.7", "", 200)
		note := read[wire.Note](t, d.do("addNote", post, "/v1/keys/notes", `{"key":"ip:203.0.113.7","text":"Same client as in July."}`, 201))
		d.do("addNote", post, "/v1/keys/notes", `{"key":"ip:203.0.113.7","text":" "}`, 422)
		d.do("listNotes", get, "/v1/keys/notes?key=ip:203.0.113.7", "", 200)
		d.do("deleteNote", del, "/v1/keys/notes/"+note.ID, "", 204)
		d.do("deleteNote", del, "/v1/keys/notes/"+note.ID, "", 404)
		d.do("eraseKey", post, "/v1/keys/erase", `{"key":"ip:203.0.113.7","preview":true}`, 200)
		d.do("eraseKey", post, "/v1/keys/erase", `{"key":"ip:203.0.113.7"}`, 409)
		d.do("eraseKey", post, "/v1/keys/erase", `{"key":"ip:203.0.113.7","confirm":"ip:203.0.113.7"}`, 200)

		d.describeProfiles()

		d.do("listGateways", get, "/v1/connect", "", 200)
		d.do("getGuide", get, "/v1/connect/nginx", "", 200)
		d.do("getGuide", get, "/v1/connect/nothing", "", 404)
		d.do("addGatewayToken", post, "/v1/connect/nginx/token", "", 201)

		token := read[wire.CreatedToken](t, d.do("addToken", post, "/v1/tokens", `{"name":"ci","scopes":["check","read"],"expires_in":"30d"}`, 201))
		d.do("listTokens", get, "/v1/tokens", "", 200)
		d.do("listTokens", get, "/v1/tokens?search=CI&state=active&order=expiry&limit=1", "", 200)
		d.do("getToken", get, "/v1/tokens/"+token.ID, "", 200)
		d.do("changeToken", patch, "/v1/tokens/"+token.ID, `{"name":"ci-prod"}`, 200)
		d.do("rotateToken", post, "/v1/tokens/"+token.ID+"/rotate", `{"overlap":"1h"}`, 201)
		d.do("revokeToken", del, "/v1/tokens/"+token.ID, "", 200)

		user := read[wire.User](t, d.do("addUser", post, "/v1/users", `{"name":"ada","role":"viewer","password":"correct horse"}`, 201))
		d.do("listUsers", get, "/v1/users", "", 200)
		d.do("listUsers", get, "/v1/users?search=AD&order=last_login&limit=1", "", 200)
		d.do("getUser", get, "/v1/users/"+user.ID, "", 200)
		d.do("changeUser", patch, "/v1/users/"+user.ID, `{"disabled":true}`, 200)
		d.do("changeUser", patch, "/v1/users/"+user.ID, `{"disabled":false}`, 200)
		d.do("setPassword", put, "/v1/users/"+user.ID+"/password", `{"password":"battery staple"}`, 200)
		d.do("inviteUser", post, "/v1/users/"+user.ID+"/invitation", `{"expires_in":"1h"}`, 200)
		d.do("inviteUser", post, "/v1/users/"+user.ID+"/invitation", `{"expires_in":"1y"}`, 422)
		storetest.SetUpTOTP(t, d.store.Factors, user.ID)
		d.do("resetTOTP", del, "/v1/users/"+user.ID+"/totp", "", 200)
		d.do("deleteUser", del, "/v1/users/"+user.ID, "", 204)

		d.do("listOffenders", get, "/v1/offenders?last=24h&sort=last&points=4&limit=10", "", 200)
		d.do("exportOffenders", get, "/v1/offenders/export?format=csv", "", 200)
		d.do("listOrigins", get, "/v1/offenders/origins?by=country&last=24h", "", 200)
		d.do("listActiveKeys", get, "/v1/keys/active?last=24h&policy=default&pattern=ip:203.0.113.0/24&search=203&never_refused=true&limit=10", "", 200)
		d.do("keyTimeline", get, "/v1/offenders/timeline?key=ip:203.0.113.7", "", 200)
		d.do("getOffence", get, "/v1/offences/"+string(limited.ID), "", 200)
		d.do("getTraffic", get, "/v1/traffic?last=1h&step=1m", "", 200)
		d.do("getAttack", get, "/v1/attack", "", 200)
		d.do("getAttack", get, "/v1/attack?last=1h", "", 422)
		d.do("listAttacks", get, "/v1/attacks?limit=5", "", 200)
		d.do("listAttacks", get, "/v1/attacks?cursor=x", "", 422)
		d.do("ruleTotals", get, "/v1/traffic/rules", "", 200)
		d.do("getTrafficBy", get, "/v1/traffic/by/path?last=1h&not=path=/health,agent=x&decision=refused&limit=10", "", 200)
		d.do("getTrafficBy", get, "/v1/traffic/by/weather", "", 422)
		d.do("exportTrafficBy", get, "/v1/traffic/by/agent/export?format=csv", "", 200)
		d.do("listEscalationEvents", get, "/v1/escalations/events?policy=default", "", 200)
		d.do("listPausedEscalations", get, "/v1/escalations/paused", "", 200)
		d.do("resumeEscalation", post, "/v1/escalations/default/resume", "", 404)
		d.do("listProposals", get, "/v1/proposals?state=all", "", 200)
		d.do("listProposals", get, "/v1/proposals?state=decided", "", 200)
		d.do("getProposal", get, "/v1/proposals/x", "", 404)
		d.do("acceptProposal", post, "/v1/proposals/x/accept", "", 404)
		d.do("dismissProposal", post, "/v1/proposals/x/dismiss", `{"reason":"ours"}`, 404)

		written := read[wire.Report](t, d.do("writeReport", post, "/v1/reports", `{"kind":"daily"}`, 201))
		d.do("writeReport", post, "/v1/reports", `{"kind":"hourly"}`, 422)
		d.do("getPolicyUsage", get, "/v1/policies/default/usage?last=1h", "", 200)
		d.do("getPolicyUsage", get, "/v1/policies/nothing/usage", "", 404)
		d.do("listReports", get, "/v1/reports?kind=daily&limit=10", "", 200)
		d.do("getReport", get, "/v1/reports/today?format=csv", "", 200)
		d.do("getReport", get, "/v1/reports/"+written.ID, "", 200)
		d.do("getReport", get, "/v1/reports/"+written.ID+"?format=csv", "", 200)
		d.do("getReport", get, "/v1/reports/"+written.ID+"?format=html", "", 200)
		d.do("getReport", get, "/v1/reports/x", "", 404)

		d.do("listAudit", get, "/v1/audit?from=2026-01-01T00:00:00Z&limit=3", "", 200)
		d.do("getAuditEntry", get, "/v1/audit/1", "", 200)
		d.do("verifyAudit", get, "/v1/audit/verify", "", 200)
		d.do("exportAudit", get, "/v1/audit/export?format=json", "", 200)
		if a := d.do("backup", get, "/v1/backup", "", 200); a.body != "data" {
			t.Errorf("got the backup %q", a.body)
		}
		big := strings.Repeat("x", 3<<20) // larger than an admin request may be
		d.do("restore", post, "/v1/restore?dry_run=true", big, 200, "Content-Type: "+"application/octet-stream")
		a := d.do("restore", post, "/v1/restore", big, 200, "Content-Type: "+"application/octet-stream")
		if got := read[wire.RestoreAnswer](t, a); got.Detail != fmt.Sprintf("%d bytes", len(big)) {
			t.Errorf("got %+v", got)
		}
		describeOperations(d)
		for _, r := range n.api.routes {
			if r.Operation != nil && !d.seen[r.Operation.ID] {
				t.Errorf("no request of the operation %s was validated against openapi.json", r.Operation.ID)
			}
			if r.Operation == nil && strings.HasPrefix(r.Path, "/v1/") {
				t.Errorf("%s %s is not described in openapi.json", r.Method, r.Path)
			}
		}
	}, func(d *nodeParts) { d.Backups.Store = &memoryBackups{held: []byte("data")} })
}

func TestFailingBackupIsCutOff(t *testing.T) {
	n := startNode(t, func(d *nodeParts) { d.Backups.Store = failingBackups{} })
	request, err := http.NewRequest(get, n.admin+"/v1/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+n.tokens[administer])
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err == nil {
		t.Fatalf("reading a truncated backup succeeded with %d bytes, want an error", len(text))
	}
	n.wantProblem(n.as(administer, post, "/v1/restore", "x", "Content-Type: "+"application/octet-stream"), http.StatusInternalServerError, "")
	n.wantProblem(n.as(administer, post, "/v1/restore", "{}"), http.StatusUnsupportedMediaType, "")
}

// failingBackups writes some bytes and then fails.
type failingBackups struct{}

func (failingBackups) Backup(_ context.Context, w io.Writer) error {
	if _, err := w.Write(bytes.Repeat([]byte("x"), 100_000)); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (failingBackups) Verify(context.Context, io.Reader) (string, error) {
	return "", io.ErrUnexpectedEOF
}

func (failingBackups) Restore(context.Context, audit.Actor, io.Reader) (string, error) {
	return "", io.ErrUnexpectedEOF
}
