package doors

import (
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

var grpcAnnounced = regexp.MustCompile(`\n +grpc +(\S+)`)

// envoySide calls a node like Envoy does.
type envoySide struct {
	*testing.T
	node *testnode.Node
	addr string // of the gRPC listener
	conn *grpc.ClientConn
}

// startEnvoySide starts a node with a gRPC listener, and makes the policy limits of
// three requests a day for the addresses and descriptors of the domain site.
func startEnvoySide(t *testing.T, flags ...string) *envoySide {
	t.Helper()
	e := &envoySide{T: t, node: testnode.Start(t, append([]string{"--grpc-listen", "127.0.0.1:0"}, flags...)...)}
	e.addr = grpcAddress(t, e.node)
	e.conn = dialGRPC(t, e.node)
	e.node.Do(t, http.MethodPut, "/v1/policies/limits?confirm=limits", `{"match":["ip:*","envoy:site:*"],"rules":["3/1d"]}`, http.StatusCreated)
	e.node.Do(t, http.MethodPut, "/v1/policies/closed?confirm=closed", `{"match":["envoy:closed:*"],"rules":["3/1d"],"on_failure":"deny"}`, http.StatusCreated)
	return e
}

// grpcAddress returns the address of a node's gRPC listener.
func grpcAddress(t *testing.T, n *testnode.Node) (address string) {
	t.Helper()
	servers.Await(t, "the node prints its gRPC address", func() bool {
		found := grpcAnnounced.FindStringSubmatch(n.Output())
		if found != nil {
			address = found[1]
		}
		return found != nil
	})
	return address
}

// dialGRPC returns a connection to a node's gRPC listener.
func dialGRPC(t *testing.T, n *testnode.Node) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(grpcAddress(t, n), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// descriptor returns one of entries as "key=value".
func descriptor(entries ...string) *commonv3.RateLimitDescriptor {
	d := new(commonv3.RateLimitDescriptor)
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// costing gives a descriptor hits of its own.
func costing(d *commonv3.RateLimitDescriptor, hits uint64) *commonv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func (e *envoySide) ask(domain string, hits uint32, all ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
	e.Helper()
	answer, err := ratelimitv3.NewRateLimitServiceClient(e.conn).ShouldRateLimit(e.Context(),
		&ratelimitv3.RateLimitRequest{Domain: domain, Descriptors: all, HitsAddend: hits})
	if err != nil {
		e.Fatal(err)
	}
	if len(answer.GetStatuses()) != len(all) {
		e.Fatalf("%d statuses for %d descriptors", len(answer.GetStatuses()), len(all))
	}
	return answer
}

// want fails the test unless an answer allows or refuses, and returns it.
func (e *envoySide) want(allowed bool, answer *ratelimitv3.RateLimitResponse) *ratelimitv3.RateLimitResponse {
	e.Helper()
	if got := answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OK; got != allowed {
		e.Fatalf("got %v, want allowed %v", answer, allowed)
	}
	return answer
}

func headerOf(all []*corev3.HeaderValue, name string) string {
	for _, h := range all {
		if strings.EqualFold(h.GetKey(), name) {
			return h.GetValue()
		}
	}
	return ""
}

func TestEnvoyIsLimitedBlockedAndExempt(t *testing.T) {
	e := startEnvoySide(t)
	address := descriptor("remote_address=198.51.100.7")
	first := e.want(true, e.ask("site", 0, address))
	if st := first.GetStatuses()[0]; st.GetCurrentLimit().GetName() != "3/1d" || st.GetCurrentLimit().GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_DAY ||
		st.GetCurrentLimit().GetRequestsPerUnit() != 3 || st.GetLimitRemaining() != 2 || st.GetDurationUntilReset().GetSeconds() != 86400 {
		t.Errorf("an allowed request: got the status %v", st)
	}
	if headerOf(first.GetResponseHeadersToAdd(), "RateLimit") == "" || headerOf(first.GetResponseHeadersToAdd(), "Retry-After") != "" {
		t.Errorf("an allowed request: got the headers %v", first.GetResponseHeadersToAdd())
	}
	e.want(true, e.ask("site", 2, address))
	for range 3 {
		refused := e.want(false, e.ask("site", 0, address))
		if st := refused.GetStatuses()[0]; st.GetDurationUntilReset().GetSeconds() < 86390 || st.GetDurationUntilReset().GetNanos() != 0 {
			t.Errorf("a refused request: got the status %v", st)
		}
		if headerOf(refused.GetResponseHeadersToAdd(), "Retry-After") == "" || refused.GetDynamicMetadata().GetFields()["decision"].GetStringValue() != "limited" {
			t.Errorf("a refused request: got %v", refused)
		}
	}
	e.want(false, e.ask("site", 5, descriptor("remote_address=198.51.100.6"))) // never allowed, so no error

	e.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:198.51.100.8","reason":"test"}`, http.StatusCreated)
	blocked := e.want(false, e.ask("site", 0, descriptor("remote_address=198.51.100.8")))
	if blocked.GetDynamicMetadata().GetFields()["decision"].GetStringValue() != "blocked" {
		t.Errorf("a blocked request: got %v", blocked)
	}
	e.node.Do(t, http.MethodPost, "/v1/exemptions", `{"pattern":"ip:198.51.100.8","reason":"test","expires_in":"1h"}`, http.StatusCreated)
	for range 5 {
		e.want(true, e.ask("site", 0, descriptor("remote_address=198.51.100.8")))
	}
	for range 5 { // unknown: the policy default, which matches every key, does not count
		unknown := e.want(true, e.ask("elsewhere", 0, descriptor("user=alice")))
		if unknown.GetStatuses()[0].GetCurrentLimit() != nil {
			t.Errorf("an unknown descriptor: got %v", unknown)
		}
	}
}

func TestEnvoyDescriptorsAreOneCheck(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { checkSeveralDescriptors(startEnvoySide(t)) })
	// No call can decide keys of different slots.
	t.Run("on a Redis Cluster", func(t *testing.T) {
		checkSeveralDescriptors(startEnvoySide(t, "--redis-url", servers.Cluster(t, "--cluster-node-timeout", "120000").URL, "--database-url", servers.Postgres(t).URL, "--grpc-deadline", "10s"))
	})
}

func checkSeveralDescriptors(e *envoySide) {
	e.Helper()
	alice, bob := descriptor("user=alice"), descriptor("user=bob")
	e.want(true, e.ask("site", 3, alice))
	for range 4 {
		answer := e.want(false, e.ask("site", 0, alice, bob, bob))
		for i, want := range []ratelimitv3.RateLimitResponse_Code{2, 1, 1} {
			if got := answer.GetStatuses()[i].GetCode(); got != want {
				e.Errorf("descriptor %d: got %v, want %v", i, got, want)
			}
		}
	}
	asks := costing(descriptor("user=bob"), 0)
	for range 5 {
		if st := e.want(true, e.ask("site", 0, asks)).GetStatuses()[0]; st.GetLimitRemaining() != 3 {
			e.Errorf("after refused requests and peeks: got %v, want 3 remaining", st)
		}
	}
	e.want(false, e.ask("site", 0, costing(descriptor("user=alice"), 0), bob)) // a refused peek refuses the others too
	if st := e.ask("site", 0, asks).GetStatuses()[0]; st.GetLimitRemaining() != 3 {
		e.Errorf("after a refusal with a peek: got %v, want 3 remaining", st)
	}
	// Usage that is reported later fills each limit separately.
	e.want(false, e.ask("site", 0, costing(descriptor("user=alice"), 4000), costing(descriptor("user=bob"), 2)))
	if st := e.ask("site", 0, asks).GetStatuses()[0]; st.GetLimitRemaining() != 1 {
		e.Errorf("after the usage: got %v, want 1 remaining", st)
	}
	e.want(false, e.ask("site", 0, costing(descriptor("user=bob"), 1<<63)))
	e.want(false, e.ask("site", 0, asks))
}

func TestEnvoyHostileDescriptorsHaveSeparateKeys(t *testing.T) {
	e := startEnvoySide(t)
	long := strings.Repeat("x", 4000)
	hostile := []*commonv3.RateLimitDescriptor{
		descriptor("a=b|c=d"), descriptor("a=b", "c=d"), descriptor("a=b%7Cc=d"), descriptor("a="), descriptor("a=*"), descriptor("a=\n\r\x00"),
		descriptor("a=\x1b[31m"), descriptor("a=ü"), descriptor("a=" + long), descriptor("a=" + long + "y"), descriptor("a="+long, "b="+long),
		descriptor("a=#0123456789abcdef0123456789abcdef"), descriptor("a=b c"), descriptor("remote_address=not an address"),
		descriptor("remote_address=2001:db8::1", "x=y"),
	}
	for i, d := range hostile {
		if st := e.want(true, e.ask("site", 3, d)).GetStatuses()[0]; st.GetLimitRemaining() != 0 {
			t.Errorf("hostile descriptor %d: got %v, want 0 remaining", i, st)
		}
		e.want(false, e.ask("site", 0, d))
	}
	client := ratelimitv3.NewRateLimitServiceClient(e.conn)
	many := make([]*commonv3.RateLimitDescriptor, 17)
	for i := range many {
		many[i] = descriptor(fmt.Sprintf("a=%d", i))
	}
	entries := make([]string, 17)
	for i := range entries {
		entries[i] = "a=b"
	}
	negative := descriptor("a=n")
	negative.IsNegativeHits = true
	for name, q := range map[string]*ratelimitv3.RateLimitRequest{
		"no domain":        {Descriptors: []*commonv3.RateLimitDescriptor{descriptor("a=b")}},
		"a long domain":    {Domain: long, Descriptors: []*commonv3.RateLimitDescriptor{descriptor("a=b")}},
		"no descriptor":    {Domain: "site"},
		"many descriptors": {Domain: "site", Descriptors: many},
		"no entry":         {Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{{}}},
		"many entries":     {Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{descriptor(entries...)}},
		"no key":           {Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{descriptor("=b")}},
		"negative hits":    {Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{negative}},
	} {
		if _, err := client.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", name, err)
		}
	}
	huge := descriptor("a=" + strings.Repeat("x", 300<<10))
	if _, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{huge}}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message of 300 KiB: got %v", err)
	}
}

// httpCheck returns what ext_authz sends of a request from an address.
func httpCheck(address string, extensions, headers map[string]string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request:           &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/?policy=free", Headers: headers}},
		ContextExtensions: extensions,
	}}
}

func TestEnvoyExternalAuthorization(t *testing.T) {
	e := startEnvoySide(t, "--trusted-proxies", "192.0.2.1")
	client := authv3.NewAuthorizationClient(e.conn)
	check := func(q *authv3.CheckRequest) *authv3.CheckResponse {
		t.Helper()
		answer, err := client.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	forged := map[string]string{"x-forwarded-for": "203.0.113.99", "forwarded": "for=203.0.113.98", "policy": "free"}
	for range 3 {
		if a := check(httpCheck("198.51.100.7", nil, forged)); a.GetStatus().GetCode() != 0 || len(a.GetOkResponse().GetResponseHeadersToAdd()) == 0 {
			t.Fatalf("an allowed request: got %v", a)
		}
	}
	limited := check(httpCheck("198.51.100.7", nil, forged))
	if limited.GetStatus().GetCode() == 0 || limited.GetDeniedResponse().GetStatus().GetCode() != 429 || !strings.Contains(limited.GetDeniedResponse().GetBody(), `"limited"`) {
		t.Errorf("a limited request: got %v", limited)
	}
	// Behind a trusted hop the header counts, from the right.
	behind := map[string]string{"x-forwarded-for": "203.0.113.99, 198.51.100.7"}
	if a := check(httpCheck("192.0.2.1", nil, behind)); a.GetDeniedResponse().GetStatus().GetCode() != 429 {
		t.Errorf("a request behind a trusted proxy: got %v", a)
	}
	e.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:198.51.100.8","reason":"test"}`, http.StatusCreated)
	if a := check(httpCheck("198.51.100.8", nil, nil)); a.GetDeniedResponse().GetStatus().GetCode() != 403 || a.GetDynamicMetadata().GetFields()["refusal_id"].GetStringValue() == "" {
		t.Errorf("a blocked request: got %v", a)
	}
	route := map[string]string{"policy": "never", "by": "header:X-Api-Key", "source": "edge"}
	if a := check(httpCheck("198.51.100.9", route, map[string]string{"x-api-key": "secret"})); a.GetDeniedResponse().GetStatus().GetCode() != 429 {
		t.Errorf("a request with the policy of the route: got %v", a)
	}
	// A block with a scope refuses the requests of the routes that have this scope.
	e.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:198.51.100.13","scope":"login","reason":"test"}`, http.StatusCreated)
	if a := check(httpCheck("198.51.100.13", nil, nil)); a.GetStatus().GetCode() != 0 {
		t.Errorf("a request in no scope: got %v", a)
	}
	if a := check(httpCheck("198.51.100.13", map[string]string{"scope": "login"}, nil)); a.GetDeniedResponse().GetStatus().GetCode() != 403 {
		t.Errorf("a request in the scope of the block: got %v", a)
	}
	if _, err := client.Check(t.Context(), httpCheck("198.51.100.13", map[string]string{"scope": "Log in"}, nil)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a scope that is none: got %v", err)
	}
	// Without encode_raw_headers Envoy writes "!" for white space that is no UTF-8, which applications remove.
	e.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"cookie:session:`+hashed("bad")+`","reason":"test"}`, http.StatusCreated)
	for cookie, want := range map[string]int{"session=bad": 403, "!session! = bad!": 403, "session=good!": 0} {
		a := check(httpCheck("198.51.100.14", map[string]string{"by": "cookie:session"}, map[string]string{"cookie": cookie}))
		if got := int(a.GetDeniedResponse().GetStatus().GetCode()); got != want {
			t.Errorf("the cookie %q: got %v, want %d", cookie, a, want)
		}
	}
	// A trap matches the path in any spelling, the agent and the host.
	e.node.Do(t, http.MethodPut, "/v1/policies/trap?confirm=trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/.env*"],"agent":["*sqlmap*"],"host":["shop.example"],"method":["GET"]}}`, http.StatusCreated)
	trapped := httpCheck("198.51.100.10", nil, map[string]string{"user-agent": "sqlMap/1.8"})
	trapped.Attributes.Request.Http.Path, trapped.Attributes.Request.Http.Host = "//a/../%2eenv?x=1", "Shop.example:443"
	if a := check(trapped); a.GetDeniedResponse().GetStatus().GetCode() != 429 {
		t.Errorf("a request for the trap: got %v", a)
	}
	trapped.Attributes.Request.Http.Path = "/"
	if a := check(trapped); a.GetStatus().GetCode() != 0 {
		t.Errorf("a request for another path: got %v", a)
	}
	// What a policy can never allow is refused, since Envoy may let a request pass after an error.
	e.node.Do(t, http.MethodPut, "/v1/policies/headers", `{"match":["header:*"],"rules":["3/1d"]}`, http.StatusCreated)
	e.node.Do(t, http.MethodPut, "/v1/policies/uploads", `{"match":["*"],"rules":["1/1s"],"when":{"path":["/upload"]}}`, http.StatusCreated)
	for by, address := range map[string]string{"ip": "198.51.100.11", "ip,header:X-Api-Key": "198.51.100.12"} {
		costly := httpCheck(address, map[string]string{"cost": "2", "by": by}, map[string]string{"x-api-key": "key"})
		if a := check(costly); a.GetStatus().GetCode() != 0 {
			t.Errorf("by %s: a request of cost 2: got %v", by, a)
		}
		costly.Attributes.Request.Http.Path = "/upload"
		if a := check(costly); a.GetDeniedResponse().GetStatus().GetCode() != 429 {
			t.Errorf("by %s: a request of cost 2 under a condition with limit 1: got %v", by, a)
		}
	}
	for name, q := range map[string]*authv3.CheckRequest{
		"no address":        httpCheck("", nil, nil),
		"an unknown policy": httpCheck("198.51.100.7", map[string]string{"policy": "nobody"}, nil),
		"a bad cost":        httpCheck("198.51.100.7", map[string]string{"cost": "0"}, nil),
		"an unknown part":   httpCheck("198.51.100.7", map[string]string{"by": "body"}, nil),
		"nothing":           {},
	} {
		if _, err := client.Check(t.Context(), q); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEnvoyNeedsATokenIfChecksDo(t *testing.T) {
	e := startEnvoySide(t, "--check-auth", "token")
	ask := func(pairs ...string) error {
		_, err := ratelimitv3.NewRateLimitServiceClient(e.conn).ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), pairs...),
			&ratelimitv3.RateLimitRequest{Domain: "site", Descriptors: []*commonv3.RateLimitDescriptor{descriptor("a=b")}})
		return err
	}
	made := e.node.Do(t, http.MethodPost, "/v1/tokens", `{"name":"envoy","scopes":["check"]}`, http.StatusCreated)
	token := regexp.MustCompile(`"secret":"([^"]+)"`).FindSubmatch(made)
	if token == nil {
		t.Fatalf("no secret in %s", made)
	}
	for _, good := range [][]string{{"authorization", "Bearer " + string(token[1])}, {"x-stint-token", string(token[1])}} {
		if err := ask(good...); err != nil {
			t.Error(err)
		}
	}
	for name, bad := range map[string][]string{
		"no token": nil, "a wrong token": {"authorization", "Bearer nonsense"}, "two tokens": {"x-stint-token", string(token[1]), "x-stint-token", string(token[1])},
	} {
		if err := ask(bad...); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, service := range []string{"", "ratelimit"} {
		answer, err := healthv1.NewHealthClient(e.conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, answer, err)
		}
	}
}

func TestEnvoyRateLimitServiceInJSON(t *testing.T) {
	e := startEnvoySide(t)
	post := func(body string) (int, string) {
		t.Helper()
		out, err := exec.Command("curl", "-s", "-w", "%{http_code}", "--data-binary", body, e.node.Check+"/json").Output()
		if err != nil {
			t.Fatal(err)
		}
		code := 0
		_, _ = fmt.Sscan(string(out[len(out)-3:]), &code)
		return code, string(out[:len(out)-3])
	}
	const ask = `{"domain":"site","descriptors":[{"entries":[{"key":"user","value":"json"}]}],"hitsAddend":2}`
	if code, body := post(ask); code != 200 || !strings.Contains(strings.ReplaceAll(body, " ", ""), `"overallCode":"OK"`) {
		t.Errorf("an allowed request: got %d %s", code, body)
	}
	if code, body := post(ask); code != 429 || !strings.Contains(body, "OVER_LIMIT") {
		t.Errorf("a limited request: got %d %s", code, body)
	}
	// A page of another site may send any text to this machine from a visitor's browser, which names the site.
	page, err := exec.Command("curl", "-s", "-H", "Origin: https://attacker.example", "-H", "Content-Type: text/plain", "--data-binary",
		strings.Replace(ask, "json", "of-a-page", 1), e.node.Check+"/json").Output()
	if err != nil || !strings.Contains(string(page), "Origin") {
		t.Errorf("a request of a web page: got %v %s", err, page)
	}
	if code, body := post(strings.Replace(ask, "json", "of-a-page", 1)); code != 200 {
		t.Errorf("the request of a web page was charged: got %d %s", code, body)
	}
	for _, bad := range []string{``, `[]`, `{`, `{"domain":""}`, `{"domain":"site","descriptors":[{}]}`, strings.Repeat(`[`, 5000)} {
		if code, body := post(bad); code != 400 {
			t.Errorf("%.20q: got %d %s, want 400", bad, code, body)
		}
	}
}

// A key of several parts is the same at /v1/forward and over gRPC, so that policies and blocks of it hold at both.
func TestEnvoyMakesTheKeysOfForward(t *testing.T) {
	e := startEnvoySide(t, "--trusted-proxies", "192.0.2.1")
	e.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip+path+method:198.51.100.9|/|GET","literal":true,"reason":"test","expires_in":"1h"}`, http.StatusCreated)
	for address, want := range map[string]int{"198.51.100.9": http.StatusForbidden, "198.51.100.10": http.StatusOK} {
		if got := e.authorize(address, map[string]string{"by": "ip+path+method"}, nil); got != want {
			t.Errorf("%s is answered %d, want %d", address, got, want)
		}
	}
}
