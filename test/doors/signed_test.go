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
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

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

// checkSigned checks all requests, and the good ones again, which then verify nobody.
func checkSigned(t *testing.T, node *testnode.Node, key jwk, isVerified func(headers map[string]string) bool) {
	t.Helper()
	probe := []toSign{{URL: "https://" + signedHost + "/page", Agent: `sig1="https://chatgpt.com"`, JWK: key}}
	deadline := time.Now().Add(time.Minute)
	for { // signatures of a node's first seconds do not count
		probe[0].Created = time.Now().Unix()
		probe[0].Expires = probe[0].Created + 300
		if isVerified(sign(t, probe)[0]) {
			break
		}
		if why := whyNot(t, node); !strings.Contains(why, "older than this node") || time.Now().After(deadline) {
			t.Fatalf("no signature counts: %s", why)
		}
		time.Sleep(time.Second)
	}
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
	checkSigned(t, s.node, key, func(headers map[string]string) bool {
		sent, err := json.Marshal(headers)
		if err != nil {
			t.Fatal(err)
		}
		if headers == nil {
			sent = []byte("{}")
		}
		body := fmt.Sprintf(`{"key":"ip:198.51.100.7","request":{"method":"GET","path":"/page","host":%q,"headers":%s}}`, signedHost, sent)
		var answer struct{ Allowed bool }
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.node.Check+"/v1/check", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		a, err := keepAlive.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if err := json.NewDecoder(a.Body).Decode(&answer); err != nil || a.StatusCode != http.StatusOK && a.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("got %d, %v", a.StatusCode, err)
		}
		return !answer.Allowed
	})
}

// Who is no trusted proxy says nothing of the host that a client asked for, and so of no signature.
func TestSignaturesOfBotsFromNoTrustedProxyVerifyNobody(t *testing.T) {
	key := jwkOf(strings.Repeat("k", 32))
	s := &site{T: t, node: testnode.Start(t, withKeys(t, key)...)}
	s.url = s.node.Check
	s.put("site", roomy)
	s.put("signed", onlySigned)
	all := signedRequests(key)
	for i, headers := range sign(t, all) {
		for _, host := range []string{"Host", "X-Forwarded-Host"} {
			headers[host] = signedHost
		}
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/forward?by=ip", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = signedHost
		for name, value := range headers {
			q.Header.Set(name, value)
		}
		answer, err := keepAlive.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d", all[i].what, answer.StatusCode)
		}
	}
}
