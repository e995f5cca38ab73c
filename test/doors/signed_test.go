package doors

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stint-dev/stint/test/testnode"
)

// jwk is a key for Ed25519, with its private half.
type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	D     string `json:"d,omitempty"`
}

func jwkOf(seed string) jwk {
	private := ed25519.NewKeyFromSeed([]byte(seed))
	text := base64.RawURLEncoding.EncodeToString
	return jwk{"OKP", "Ed25519", text(private.Public().(ed25519.PublicKey)), text([]byte(seed))}
}

// rfcTestKey is test-key-ed25519 of RFC 9421, whose private half is published.
var rfcTestKey = jwk{"OKP", "Ed25519", "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"}

const signedHost = "www.example.com"

// withKeys returns the flag for a data directory with the keys of chatgpt.com, the test key among them.
func withKeys(t *testing.T, key jwk) []string {
	t.Helper()
	const url = "https://chatgpt.com/.well-known/http-message-signatures-directory"
	sum, folder := sha256.Sum256([]byte(url)), filepath.Join(t.TempDir(), "data")
	key.D = ""
	text, err := json.Marshal(map[string]any{"keys": []jwk{key, {rfcTestKey.Type, rfcTestKey.Curve, rfcTestKey.X, ""}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "bots"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "bots", "chatgpt.com-"+hex.EncodeToString(sum[:3])+".json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--data-dir", folder, "--fetch-bot-keys", "false", "--site-hosts", "*.example.com"}
}

// toSign is a request that a bot signs.
type toSign struct {
	URL     string `json:"url"`
	Agent   string `json:"agent"`
	JWK     jwk    `json:"jwk"`
	Created int64  `json:"created"`
	Expires int64  `json:"expires"`
	what    string // for messages
	isGood  bool
}

// signedRequests are requests of which the good ones are verified, each once.
func signedRequests(key jwk) []toSign {
	now := time.Now().Unix()
	all := []toSign{
		{what: "a dictionary", isGood: true}, {what: "one string", Agent: `"https://chatgpt.com"`, isGood: true},
		{what: "expired", Created: now - 100, Expires: now - 40},
		{what: "for two days", Expires: now + 2*24*3600},
		{what: "of another host", URL: "https://www.example.org/page"},
		{what: "of another directory", Agent: `sig1="https://agent.example"`},
		{what: "by another key", JWK: jwkOf(strings.Repeat("z", 32))},
		{what: "by the published test key", JWK: rfcTestKey},
	}
	for i := range all {
		s := &all[i]
		for into, otherwise := range map[*string]string{&s.URL: "https://" + signedHost + "/page", &s.Agent: `sig1="https://chatgpt.com"`} {
			if *into == "" {
				*into = otherwise
			}
		}
		if s.JWK.X == "" {
			s.JWK = key
		}
		if s.Created == 0 {
			s.Created = now
		}
		if s.Expires == 0 {
			s.Expires = now + 300
		}
	}
	return all
}

// sign returns the headers of each request, by the signer of npm.
func sign(t *testing.T, all []toSign) (headers []map[string]string) {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "node", "sign.mjs")
	c.Dir, c.Stdin = repository(t, "test/doors/signer"), bytes.NewReader(text)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: scripts/setup-tests.sh installs the signer", err)
	}
	if err := json.Unmarshal(out, &headers); err != nil || len(headers) != len(all) {
		t.Fatalf("the signer printed %s: %v", out, err)
	}
	return headers
}

// The policies of the tests: all may pass but for those that a signature verifies.
const roomy = `{"match":["ip:*"],"rules":["1000/1d"]}`

const onlySigned = `{"match":["ip:*"],"rules":["0/1s"],"when":{"verified":["signature"]}}`

// isVerified reports whether the request of a bot is answered as those that a signature verifies.
func (s *site) isVerified(headers map[string]string) bool {
	s.Helper()
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/page", http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	q.Host = signedHost
	for name, value := range headers {
		q.Header.Set(name, value)
	}
	answer, err := keepAlive.Do(q)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
		s.Fatalf("got %d: %s", answer.StatusCode, text)
	}
	return answer.StatusCode == http.StatusTooManyRequests
}

// whyNot returns why the last signature was not verified.
func whyNot(t *testing.T, node *testnode.Node) string {
	t.Helper()
	var bots struct {
		Lists []struct{ URL, Refused string }
	}
	if err := json.Unmarshal(node.Do(t, http.MethodGet, "/v1/bots", "", http.StatusOK), &bots); err != nil {
		t.Fatal(err)
	}
	for _, list := range bots.Lists {
		if strings.HasPrefix(list.URL, "https://chatgpt.com") {
			return list.Refused
		}
	}
	return "there is no list of its keys"
}

// awaitSigned waits until signatures count, which those of a node's first seconds do not.
func awaitSigned(t *testing.T, node *testnode.Node, key jwk, isVerified func(headers map[string]string) bool) {
	t.Helper()
	probe := []toSign{{URL: "https://" + signedHost + "/page", Agent: `sig1="https://chatgpt.com"`, JWK: key}}
	deadline := time.Now().Add(time.Minute)
	for {
		probe[0].Created = time.Now().Unix()
		probe[0].Expires = probe[0].Created + 300
		if isVerified(sign(t, probe)[0]) {
			return
		}
		if why := whyNot(t, node); !strings.Contains(why, "older than this node") || time.Now().After(deadline) {
			t.Fatalf("no signature counts: %s", why)
		}
		time.Sleep(time.Second)
	}
}

// checkSigned checks all requests, and the good ones again, which then verify nobody.
func checkSigned(t *testing.T, node *testnode.Node, key jwk, isVerified func(headers map[string]string) bool) {
	t.Helper()
	awaitSigned(t, node, key, isVerified)
	all := signedRequests(key)
	headers := sign(t, all)
	for i, s := range all {
		if got := isVerified(headers[i]); got != s.isGood {
			t.Errorf("%s: verified %v, want %v: %s", s.what, got, s.isGood, whyNot(t, node))
		}
	}
	for i, s := range all {
		if isVerified(headers[i]) {
			t.Errorf("%s, sent again: it is verified", s.what)
		}
	}
	if isVerified(nil) {
		t.Error("a request without a signature is verified")
	}
}

func TestGatewaysHandOnSignaturesOfBots(t *testing.T) {
	for _, g := range underTest() {
		if g.page == "node.md" { // the application sends what it wants to
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			key := jwkOf(strings.Repeat("k", 32))
			s := start(t, gateway{name: g.name, page: g.page, language: g.language, first: g.first, run: func(s *site, config string) {
				if g.name == "haproxy" {
					config = strings.Replace(config, "/v1/forward open", "/v1/forward?sends=header:signature,header:signature-agent,header:signature-input open", 1)
				}
				g.run(s, config)
			}}, 0, withKeys(t, key)...)
			s.put("site", roomy)
			s.put("signed", onlySigned)
			checkSigned(t, s.node, key, s.isVerified)
		})
	}
}

func TestEnvoyHandsOnSignaturesOfBots(t *testing.T) {
	key := jwkOf(strings.Repeat("k", 32))
	e := startEnvoySide(t, withKeys(t, key)...)
	e.node.Do(t, http.MethodPut, "/v1/policies/roomy?confirm=roomy", `{"match":["ip:198.51.100.0/24"],"rules":["1000/1d"]}`, http.StatusCreated)
	e.node.Do(t, http.MethodPut, "/v1/policies/signed?confirm=signed", onlySigned, http.StatusCreated)
	client := authv3.NewAuthorizationClient(e.conn)
	checkSigned(t, e.node, key, func(headers map[string]string) bool {
		sent := map[string]string{}
		for name, value := range headers {
			sent[strings.ToLower(name)] = value
		}
		q := httpCheck("198.51.100.7", nil, sent)
		q.Attributes.Request.Http.Host, q.Attributes.Request.Http.Path = signedHost, "/page"
		a, err := client.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return a.GetStatus().GetCode() != 0
	})
}

func TestChecksHandOnSignaturesOfBots(t *testing.T) {
	key := jwkOf(strings.Repeat("k", 32))
	s := direct(t, withKeys(t, key)...)
	s.put("site", roomy)
	s.put("signed", onlySigned)
	checkSigned(t, s.node, key, s.isVerifiedByCheck)
}

// isVerifiedByCheck is isVerified for an application that hands the headers on in a check.
func (s *site) isVerifiedByCheck(headers map[string]string) bool {
	s.Helper()
	if headers == nil {
		headers = map[string]string{}
	}
	sent, err := json.Marshal(headers)
	if err != nil {
		s.Fatal(err)
	}
	body := fmt.Sprintf(`{"key":"ip:198.51.100.7","request":{"method":"GET","path":"/page","host":%q,"headers":%s}}`, signedHost, sent)
	var answer struct{ Allowed bool }
	r := s.send(http.MethodPost, "/v1/check", body, "Content-Type: application/json")
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != http.StatusOK && r.status != http.StatusTooManyRequests {
		s.Fatalf("got %d, %v", r.status, err)
	}
	return !answer.Allowed
}

// TestEnvoyOverHTTPHandsOnSignaturesOfBots sends what Envoy's filter ext_authz sends over HTTP under the
// configuration of its page: Envoy's own types read it, and no test runs Envoy.
func TestEnvoyOverHTTPHandsOnSignaturesOfBots(t *testing.T) {
	key := jwkOf(strings.Repeat("k", 32))
	s := direct(t, withKeys(t, key)...)
	s.put("site", roomy)
	s.put("signed", onlySigned)
	of := func(n int) (prefix string, sent []string) {
		fields, c := map[string]any{}, new(authzv3.ExtAuthz)
		if err := yaml.Unmarshal([]byte(configuration(t, gateway{page: "envoy.md", language: "yaml"}, n)), &fields); err != nil {
			t.Fatal(err)
		}
		fields["http_service"].(map[string]any)["server_uri"] = map[string]any{"uri": "http://127.0.0.1:8080", "cluster": "stint_http", "timeout": "0.25s"}
		encoded, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(encoded, c); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.GetAllowedHeaders().GetPatterns() {
			sent = append(sent, p.GetExact())
		}
		return c.GetHttpService().GetPathPrefix(), sent
	}
	ask := func(prefix string, sent []string) func(headers map[string]string) bool {
		return func(headers map[string]string) bool {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+prefix+"/page", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = signedHost // Envoy sends the host, the method and the path whatever its configuration says
			q.Header.Set("X-Forwarded-For", client)
			for name, value := range headers {
				if slices.Contains(sent, strings.ToLower(name)) {
					q.Header.Set(name, value)
				}
			}
			answer, err := keepAlive.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("got %d: %s", answer.StatusCode, text)
			}
			return answer.StatusCode == http.StatusTooManyRequests
		}
	}
	prefix, sent := of(8)
	checkSigned(t, s.node, key, ask(prefix, sent))
	if ask(prefix, []string{"signature-agent"})(sign(t, signedRequests(key)[:1])[0]) {
		t.Error("a signature that is not sent verifies a bot")
	}
}

// Who is no trusted proxy says nothing of the host that a client asked for, and so of no signature. Those
// from a trusted one count at the same time.
func TestSignaturesOfBotsFromNoTrustedProxyVerifyNobody(t *testing.T) {
	key := jwkOf(strings.Repeat("k", 32))
	s := direct(t, append(withKeys(t, key), "--trusted-proxies", "127.0.0.2")...)
	s.put("site", roomy)
	s.put("signed", onlySigned)
	trusted, stranger := s.verifiedFrom("127.0.0.2"), s.verifiedFrom("127.0.0.1")
	awaitSigned(t, s.node, key, trusted)
	all := signedRequests(key)
	for i, headers := range sign(t, all) {
		if stranger(headers) {
			t.Errorf("%s, from no trusted proxy: it is verified", all[i].what)
		}
		if got := trusted(headers); got != all[i].isGood {
			t.Errorf("%s, from a trusted proxy: verified %v, want %v: %s", all[i].what, got, all[i].isGood, whyNot(t, s.node))
		}
	}
}

// verifiedFrom returns isVerified for a proxy with an address.
func (s *site) verifiedFrom(address string) func(headers map[string]string) bool {
	proxy := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext}}
	s.Cleanup(proxy.CloseIdleConnections)
	return func(headers map[string]string) bool {
		s.Helper()
		q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/v1/forward?by=ip", http.NoBody)
		if err != nil {
			s.Fatal(err)
		}
		q.Host = signedHost
		for name, value := range map[string]string{"X-Forwarded-Host": signedHost, "X-Forwarded-For": client, "X-Forwarded-Uri": "/page", "X-Forwarded-Proto": "https"} {
			q.Header.Set(name, value)
		}
		for name, value := range headers {
			if q.Header.Del(name); value != "" {
				q.Header[http.CanonicalHeaderKey(name)] = strings.Split(value, "\n")
			}
		}
		answer, err := proxy.Do(q)
		if err != nil {
			s.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
			s.Fatalf("got %d", answer.StatusCode)
		}
		return answer.StatusCode == http.StatusTooManyRequests
	}
}

// oddSignatures are what a client may send in place of a signature: each change of the headers of a good one.
// None verifies a bot, and none is a reason to refuse.
var oddSignatures = map[string]map[string]string{
	"no signature":             {"Signature": ""},
	"no input":                 {"Signature-Input": ""},
	"no agent":                 {"Signature-Agent": ""},
	"no dictionary":            {"Signature": "?"},
	"half a value":             {"Signature": "sig1=:AAAA"},
	"no base64":                {"Signature": "sig1=:!!!!:"},
	"three bytes":              {"Signature": "sig1=:AAAA:"},
	"64 zeros":                 {"Signature": "sig1=:" + strings.Repeat("A", 86) + "==:"},
	"a text for a value":       {"Signature": `sig1="AAAA"`},
	"another label":            {"Signature": "sig2=:" + strings.Repeat("A", 86) + "==:"},
	"a second, bad line":       {"Signature": "GOOD\nsig1=:AAAA:"},
	"a second line of nothing": {"Signature-Input": "GOOD\nsig1=()"},
	"parts without an end":     {"Signature-Input": `sig1=("@authority"`},
	"no parts":                 {"Signature-Input": `sig1=();tag="web-bot-auth"`},
	"nine parts":               {"Signature-Input": `sig1=("a" "b" "c" "d" "e" "f" "g" "h" "i");tag="web-bot-auth"`},
	"five signatures":          {"Signature-Input": `a=();tag="web-bot-auth",b=(),c=(),d=(),e=()`},
	"a part twice":             {"Signature-Input": `sig1=("@authority" "@authority");tag="web-bot-auth"`},
	"a part that is not read":  {"Signature-Input": `sig1=("@authority" "@status" "signature-agent";key="sig1");created=1;expires=2;keyid="a";tag="web-bot-auth"`},
	"a time that is a text":    {"Signature-Input": `sig1=("@authority");created="now";tag="web-bot-auth"`},
	"a time that overflows":    {"Signature-Input": `sig1=("@authority");created=9223372036854775807;expires=9223372036854775808;tag="web-bot-auth"`},
	"three kilobytes":          {"Signature-Input": "sig1=(" + strings.Repeat(" ", 3000) + `);tag="web-bot-auth"`},
	"an agent of 2 KB":         {"Signature-Agent": `sig1="https://chatgpt.com/` + strings.Repeat("a", 2000) + `"`},
	"an agent with a password": {"Signature-Agent": `sig1="https://a:b@chatgpt.com"`},
	"an agent that is no URL":  {"Signature-Agent": `sig1="https://["`},
	"agents in two lines":      {"Signature-Agent": "GOOD\nsig1=\"https://agent.example\""},
}

func TestOddSignaturesVerifyNobodyAndRefuseNothing(t *testing.T) {
	key := jwkOf(strings.Repeat("k", 32))
	s := direct(t, withKeys(t, key)...)
	s.put("site", roomy)
	s.put("signed", onlySigned)
	ask := s.verifiedFrom("127.0.0.1")
	awaitSigned(t, s.node, key, ask)
	signed := make([]toSign, len(oddSignatures)+1)
	for i := range signed {
		signed[i] = signedRequests(key)[0]
	}
	good := sign(t, signed)
	for name, changed := range oddSignatures {
		headers := maps.Clone(good[0])
		good = good[1:]
		for header, value := range changed {
			headers[header] = strings.ReplaceAll(value, "GOOD", headers[header])
		}
		if ask(headers) {
			t.Errorf("%s: it is verified", name)
		}
		if name != "a second, bad line" && name != "a second line of nothing" && name != "agents in two lines" && s.isVerifiedByCheck(headers) {
			t.Errorf("%s, in a check: it is verified", name)
		}
	}
	if !ask(good[0]) {
		t.Errorf("a good one after them is not verified: %s", whyNot(t, s.node))
	}
	if strings.Contains(s.node.Output(), "level=ERROR") {
		t.Error("a signature is logged as an error")
	}
}
