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

func putPolicy(n *testNode, name, body string, headers ...string) {
	n.Helper()
	a := n.as(identity.Admin, http.MethodPut, "/v1/policies/"+name, body, headers...)
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		n.Fatalf("put policy: %d %s", a.status, a.body)
	}
}

func TestCheckResponseMatchesDesign(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/s","5/m"]}`, "If-Match: *")
	for i := range 5 {
		a := n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK)
		want := fmt.Sprintf(`{"id":null,"decision":"allowed","allowed":true,"key":"ip:203.0.113.7","policy":"default","mode":"enforce","degraded":false,`+
			`"retry_after_ms":0,"retry_at":null,"rule":null,"rules":[{"rule":"1/1s","limit":1,"window_ms":1000,"remaining":0,"retry_after_ms":1000,"reset_after_ms":1000},`+
			`{"rule":"5/1m","limit":5,"window_ms":60000,"remaining":%d,"retry_after_ms":`, 4-i)
		if !strings.HasPrefix(a.body, want) {
			t.Fatalf("request %d:\ngot  %s\nwant %s", i, a.body, want)
		}
		n.clock.Add(time.Second)
	}
	n.clock.Add(51 * time.Second) // 56 s after the first
	a := n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusTooManyRequests)
	id := read[wire.Decision](t, a).ID
	want := `{"id":"` + string(id) + `","decision":"limited","allowed":false,"key":"ip:203.0.113.7","policy":"default","mode":"enforce","degraded":false,` +
		`"retry_after_ms":4000,"retry_at":"2026-01-01T12:35:31.000Z","rule":"5/1m","rules":[{"rule":"1/1s","limit":1,"window_ms":1000,"remaining":1,"retry_after_ms":0,"reset_after_ms":0},` +
		`{"rule":"5/1m","limit":5,"window_ms":60000,"remaining":0,"retry_after_ms":4000,"reset_after_ms":8000}],"block":null,"shadow":null}`
	if a.body != want {
		t.Fatalf("got  %s\nwant %s", a.body, want)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Retry-After": "4",
		"RateLimit-Policy": `"1/1s";q=1;w=1, "5/1m";q=5;w=60`,
		"RateLimit":        `"1/1s";r=1;t=1, "5/1m";r=0;t=4`,
	} {
		if got := a.header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
}

func TestCheckDetailNoneOmitsRules(t *testing.T) {
	n := startNode(t)
	a := n.must(n.ask(`{"key":"ip:203.0.113.7","detail":"none"}`), http.StatusOK)
	if !strings.Contains(a.body, `"rules":null`) || a.header.Get("RateLimit") != "" || a.header.Get("RateLimit-Policy") == "" {
		t.Fatalf("got %s with %v", a.body, a.header)
	}
}

func TestCheckWithoutMatchingPolicyIsAllowed(t *testing.T) {
	n := startNode(t)
	n.must(n.as(identity.Admin, http.MethodDelete, "/v1/policies/default?confirm=default", "", "If-Match: *"), http.StatusNoContent)
	a := n.must(n.ask(`{"key":"nobody"}`), http.StatusOK)
	if !strings.Contains(a.body, `"policy":null,"mode":null`) {
		t.Fatalf("got %s", a.body)
	}
}

func TestBlockedCheckReturns403WithRetryAfter(t *testing.T) {
	n := startNode(t)
	n.must(n.as(identity.Operate, http.MethodPost, wire.PathBlocks, `{"pattern":"ip:203.0.113.0/24","reason":"scraping","expires_in":"1500ms"}`), http.StatusCreated)
	a := n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusForbidden)
	d := read[wire.Decision](t, a)
	if d.Decision != wire.Blocked || d.Block == nil || d.Block.Pattern != "ip:203.0.113.0/24" || *d.RetryAfterMS != 1500 || a.header.Get("Retry-After") != "2" {
		t.Fatalf("got %s with %v", a.body, a.header)
	}
	n.clock.Add(1500 * time.Millisecond)
	n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK)
	n.must(n.as(identity.Operate, http.MethodPost, wire.PathBlocks, `{"pattern":"token:bad"}`), http.StatusCreated)
	a = n.must(n.ask(`{"key":"token:bad"}`), http.StatusForbidden)
	if d := read[wire.Decision](t, a); d.RetryAfterMS != nil || !d.RetryAt.IsZero() || a.header.Get("Retry-After") != "" {
		t.Fatalf("got %s with %v", a.body, a.header)
	}
}

func TestExemptionAllowsAndWarnsOfHiddenBlock(t *testing.T) {
	n := startNode(t)
	n.must(n.as(identity.Operate, http.MethodPost, wire.PathExemptions, `{"pattern":"ip:203.0.113.7","reason":"monitoring"}`), http.StatusCreated)
	added := read[wire.AddedEntry](t, n.must(n.as(identity.Operate, http.MethodPost, wire.PathBlocks, `{"pattern":"ip:203.0.113.0/24"}`), http.StatusCreated))
	if len(added.Warnings) != 1 || !strings.Contains(added.Warnings[0], "ip:203.0.113.7") {
		t.Fatalf("got the warnings %q, want one that names ip:203.0.113.7", added.Warnings)
	}
	d := read[wire.Decision](t, n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK))
	if d.Exemption == nil || d.Block != nil || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], added.ID) {
		t.Fatalf("got %+v", d)
	}
	n.must(n.ask(`{"key":"ip:203.0.113.8"}`), http.StatusForbidden)
}

func TestShadowPolicyDecidesInAddition(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "trial", `{"match":["*"],"rules":["0/500ms"],"mode":"shadow"}`)
	d := read[wire.Decision](t, n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK))
	if d.Policy != "default" || d.Shadow == nil || d.Shadow.Policy != "trial" || d.Shadow.Decision != wire.Limited ||
		d.Shadow.RetryAfterMS != nil || d.Shadow.Rule != "0/500ms" || d.Shadow.ID == "" {
		t.Fatalf("got %+v", d)
	}
}

func TestBatchAnswersInOrderWithProblems(t *testing.T) {
	n := startNode(t)
	a := n.must(n.send(http.MethodPost, n.check+wire.PathBatch,
		`{"checks":[{"key":"a"},{"key":""},{"key":"a","cost":2},{"key":"b","cost":0},5,{"key":"a"},{"key":"c","policy":"nobody"},{"key":"d","detail":"rules"}]}`), http.StatusOK)
	items := read[wire.BatchAnswer](t, a).Decisions
	want := []string{"allowed", "key", "cost", "cost", "", "limited", "policy", "allowed"}
	if len(items) != len(want) {
		t.Fatalf("got %s", a.body)
	}
	for i, item := range items {
		got := ""
		switch {
		case item.Decision != nil:
			got = item.Decision.Decision
		case item.Problem.Status != http.StatusUnprocessableEntity:
			t.Errorf("item %d: got the problem %+v", i, item.Problem)
		default:
			got = item.Problem.Field
		}
		if got != want[i] {
			t.Errorf("item %d: got %q, want %q", i, got, want[i])
		}
	}
	if items[0].Decision.Rules != nil || items[7].Decision.Rules == nil {
		t.Error("a batch must have rules only in items with the detail rules")
	}
}

func TestBatchAcceptsAtMostThousandChecks(t *testing.T) {
	n := startNode(t)
	batch := func(count int) string {
		return `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k"},`, count), ",") + `]}`
	}
	a := n.must(n.send(http.MethodPost, n.check+wire.PathBatch, batch(1000)), http.StatusOK)
	if got := len(read[wire.BatchAnswer](t, a).Decisions); got != 1000 {
		t.Fatalf("got %d decisions, want 1000", got)
	}
	n.wantProblem(n.send(http.MethodPost, n.check+wire.PathBatch, batch(1001)), http.StatusUnprocessableEntity, "checks")
	n.wantProblem(n.send(http.MethodPost, n.check+wire.PathBatch, batch(0)), http.StatusUnprocessableEntity, "checks")
	n.wantProblem(n.send(http.MethodPost, n.check+wire.PathBatch, `{}`), http.StatusUnprocessableEntity, "checks")
	n.wantProblem(n.send(http.MethodPost, n.check+wire.PathBatch, `{"checks":{}}`), http.StatusUnprocessableEntity, "checks")
}

func TestBadChecksReturnProblemsNamingTheField(t *testing.T) {
	n := startNode(t)
	long := strings.Repeat("x", 600)
	many33 := ""
	for i := range 33 {
		many33 += fmt.Sprintf(`,"c%d":"x"`, i)
	}
	many33 = many33[1:]
	for name, test := range map[string]struct {
		body   string
		status int
		field  string
	}{
		"no body":                         {" ", 400, ""},
		"no JSON":                         {"key=ip:203.0.113.7", 400, ""},
		"truncated JSON":                  {`{"key":"a"`, 400, ""},
		"JSON and truncated JSON":         {`{"key":"a"} {`, 400, ""},
		"two JSON objects":                {`{"key":"a"}{"key":"b"}`, 400, ""},
		"a key twice":                     {`{"key":"a","key":"b"}`, 400, "key"},
		"an escaped second key":           {`{"key":"a","\u006bey":"b"}`, 400, "key"},
		"a key that is not UTF-8":         {"{\"key\":\"\xff\"}", 400, "key"},
		"a lone surrogate":                {`{"key":"\ud800"}`, 400, "key"},
		"too deep":                        {`{"key":` + strings.Repeat("[", 100_00) + strings.Repeat("]", 10_000) + `}`, 400, ""},
		"null":                            {`null`, 422, ""},
		"a list":                          {`[]`, 422, ""},
		"a string":                        {`"ip:203.0.113.7"`, 422, ""},
		"no key":                          {`{}`, 422, "key"},
		"a null key":                      {`{"key":null}`, 422, "key"},
		"a number for a key":              {`{"key":5}`, 422, "key"},
		"an empty key":                    {`{"key":""}`, 422, "key"},
		"a long key":                      {`{"key":"` + long + `"}`, 422, "key"},
		"a control character in a key":    {`{"key":"a\u0000b"}`, 422, "key"},
		"a bad kind":                      {`{"key":"IP:203.0.113.7"}`, 422, "key"},
		"a bad address":                   {`{"key":"ip:203.0.113.777"}`, 422, "key"},
		"a network for a key":             {`{"key":"ip:203.0.113.0/24"}`, 422, "key"},
		"an unknown field":                {`{"key":"a","kost":1}`, 422, "kost"},
		"a field in capitals":             {`{"Key":"a"}`, 422, "Key"},
		"a cost of 0":                     {`{"key":"a","cost":0}`, 422, "cost"},
		"a negative cost":                 {`{"key":"a","cost":-1}`, 422, "cost"},
		"a fractional cost":               {`{"key":"a","cost":1.5}`, 422, "cost"},
		"a cost with an exponent":         {`{"key":"a","cost":1e3}`, 422, "cost"},
		"a cost with a fraction of 0":     {`{"key":"a","cost":1.0}`, 422, "cost"},
		"a huge cost":                     {`{"key":"a","cost":99999999999999999999999999}`, 422, "cost"},
		"a cost of 1001":                  {`{"key":"a","cost":1001}`, 422, "cost"},
		"a cost above the smallest limit": {`{"key":"a","cost":2}`, 422, "cost"},
		"a cost in quotes":                {`{"key":"a","cost":"5"}`, 422, "cost"},
		"a cost of NaN":                   {`{"key":"a","cost":NaN}`, 400, "cost"},
		"a cost with a leading 0":         {`{"key":"a","cost":01}`, 400, ""},
		"a null cost":                     {`{"key":"a","cost":null}`, 422, "cost"},
		"a peek of 1":                     {`{"key":"a","peek":1}`, 422, "peek"},
		"a peek in quotes":                {`{"key":"a","peek":"true"}`, 422, "peek"},
		"an unknown policy":               {`{"key":"a","policy":"nobody"}`, 422, "policy"},
		"an empty policy":                 {`{"key":"a","policy":""}`, 422, "policy"},
		"a bad policy name":               {`{"key":"a","policy":"A B"}`, 422, "policy"},
		"an unknown detail":               {`{"key":"a","detail":"all"}`, 422, "detail"},
		"an empty detail":                 {`{"key":"a","detail":""}`, 422, "detail"},
		"a number for a source":           {`{"key":"a","source":1}`, 422, "source"},
		"a long source":                   {`{"key":"a","source":"` + long + `"}`, 422, "source"},
		"a control character in a source": {`{"key":"a","source":"a\nb"}`, 422, "source"},
		"a list for meta":                 {`{"key":"a","meta":[]}`, 422, "meta"},
		"a number in meta":                {`{"key":"a","meta":{"path":1}}`, 422, "meta.path"},
		"a name twice in meta":            {`{"key":"a","meta":{"p":"1","p":"2"}}`, 400, "meta.p"},
		"a long value in meta":            {`{"key":"a","meta":{"path":"` + long + `"}}`, 422, "meta.path"},
		"a long name in meta":             {`{"key":"a","meta":{"` + long + `":"a"}}`, 422, "meta"},
		"an entry without a name in meta": {`{"key":"a","meta":{"":"a"}}`, 422, "meta"},
		"nine entries in meta":            {`{"key":"a","meta":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}}`, 422, "meta"},
		"a string for a request":          {`{"key":"a","request":"/x"}`, 422, "request"},
		"a number for a path":             {`{"key":"a","request":{"path":7}}`, 422, "request.path"},
		"an unknown attribute":            {`{"key":"a","request":{"query":"x"}}`, 422, "request.query"},
		"a control character in a path":   {`{"key":"a","request":{"path":"/a\u0000"}}`, 422, "request.path"},
		"a long path":                     {`{"key":"a","request":{"path":"/` + strings.Repeat("x", 8192) + `"}}`, 422, "request.path"},
		"a long method":                   {`{"key":"a","request":{"method":"` + strings.Repeat("M", 33) + `"}}`, 422, "request.method"},
		"a long agent":                    {`{"keys":["a"],"request":{"agent":"` + strings.Repeat("x", 2049) + `"}}`, 422, "request.agent"},
		"a long host":                     {`{"key":"a","request":{"host":"` + long + `"}}`, 422, "request.host"},
		"a string for headers":            {`{"key":"a","request":{"headers":"x"}}`, 422, "request.headers"},
		"a number for a header":           {`{"key":"a","request":{"headers":{"accept":1}}}`, 422, "request.headers.accept"},
		"a header without a name":         {`{"key":"a","request":{"headers":{"":"x"}}}`, 422, "request"},
		"a header with a space":           {`{"key":"a","request":{"headers":{"a b":"x"}}}`, 422, "request"},
		"a cookie with a long name":       {`{"key":"a","request":{"cookies":{"` + strings.Repeat("x", 65) + `":"x"}}}`, 422, "request"},
		"a parameter twice":               {`{"key":"a","request":{"query":{"a":"1","a":"2"}}}`, 400, "request.query.a"},
		"a long scheme":                   {`{"key":"a","request":{"scheme":"httpsssss"}}`, 422, "request.scheme"},
		"33 cookies":                      {`{"key":"a","request":{"cookies":{` + many33 + `}}}`, 422, "request.cookies"},
		"a path twice":                    {`{"key":"a","request":{"path":"/a","path":"/b"}}`, 400, "request.path"},
		"more than 64 KiB":                {`{"key":"a"` + strings.Repeat(" ", 64<<10) + `}`, 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := &testNode{T: t, check: n.check}
			n.wantProblem(n.ask(test.body), test.status, test.field)
		})
	}
}

func TestCheckAcceptsOnlyJSON(t *testing.T) {
	n := startNode(t)
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonx", "multipart/form-data; boundary=x"} {
		n.wantProblem(n.send(http.MethodPost, n.check+wire.PathCheck, `{"key":"a"}`, "Content-Type: "+media), http.StatusUnsupportedMediaType, "")
	}
	n.wantProblem(n.send(http.MethodPost, n.check+wire.PathCheck, `{"key":"a"}`, "Content-Type: application/json; charset=utf-8", "Content-Encoding: gzip"), http.StatusUnsupportedMediaType, "")
	n.wantProblem(n.send(http.MethodPost, n.check+wire.PathCheck, `{"key":"a"}`, "Content-Type: application/json", "Content-Encoding: gzip"), http.StatusUnsupportedMediaType, "")
	n.must(n.send(http.MethodPost, n.check+wire.PathCheck, `{"key":"a"}`, "Content-Type: application/json; charset=UTF-8"), http.StatusOK)
}

func TestDifferentKeysAreCountedSeparately(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/d"]}`, "If-Match: *")
	for _, key := range []string{"a", "A", "a ", "ä", "a\u0308", "token:a", "token:A"} {
		n.must(n.ask(`{"key":"`+key+`"}`), http.StatusOK)
	}
	n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK)
	n.must(n.ask(`{"key":"ip:::ffff:203.0.113.7"}`), http.StatusTooManyRequests)
}

func TestPeekChargesNothing(t *testing.T) {
	n := startNode(t)
	for range 3 {
		n.must(n.ask(`{"key":"a","peek":true}`), http.StatusOK)
	}
	n.must(n.ask(`{"key":"a","peek":false}`), http.StatusOK)
	n.must(n.ask(`{"key":"a","peek":true}`), http.StatusTooManyRequests)
}

func TestCheckAuthRequiresCheckTokenAndNeverReturns403(t *testing.T) {
	n := startNode(t, func(d *nodeParts) { d.Server.CheckAuth = true })
	for path, body := range map[string]string{
		wire.PathCheck: `{"key":"a","peek":true}`, wire.PathBatch: `{"checks":[{"key":"a","peek":true}]}`,
		wire.PathReport: `{"key":"a","outcome":"b"}`, wire.PathReportBatch: `{"reports":[{"key":"a","outcome":"b"}]}`,
	} {
		n.wantProblem(n.send(http.MethodPost, n.check+path, body), http.StatusUnauthorized, "")
		n.wantProblem(n.send(http.MethodPost, n.check+path, body, "Authorization: Bearer nonsense"), http.StatusUnauthorized, "")
		for _, scope := range []identity.Access{identity.Read, identity.Operate, identity.Admin} {
			n.wantProblem(n.send(http.MethodPost, n.check+path, body, "Authorization: Bearer "+n.tokens[scope]), http.StatusUnauthorized, "")
		}
		n.must(n.send(http.MethodPost, n.check+path, body, "Authorization: Bearer "+n.tokens[identity.Check]), http.StatusOK)
	}
	n.must(n.send(http.MethodGet, n.check+"/livez", ""), http.StatusOK)
}
