package httpsig

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// testKey is test-key-ed25519 of RFC 9421, appendix B.1.4.
func testKey(t *testing.T) ed25519.PublicKey {
	t.Helper()
	key, err := base64.RawURLEncoding.DecodeString("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// testMessage is test-request of RFC 9421, appendix B.2.
func testMessage() *Message {
	headers := map[string][]string{
		"date": {"Tue, 20 Apr 2021 02:07:55 GMT"}, "content-type": {"application/json"}, "content-length": {"18"},
		"cache-control": {"max-age=60", "   must-revalidate"}, "example-dict": {"a=1,    b=2;x=1;y=2,   c=(a   b   c)", "d"},
	}
	return &Message{
		Method: "POST", Scheme: "https", Authority: "Example.COM:443", Target: "/foo?param=Value&Pet=dog",
		Header: func(name string) []string { return headers[name] },
	}
}

func readOne(t *testing.T, input, value string) Signature {
	t.Helper()
	all, err := Read([]string{input}, []string{value})
	if err != nil || len(all) != 1 {
		t.Fatalf("got %d signatures, %v", len(all), err)
	}
	return all[0]
}

const (
	b26Input = `sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`
	b26Value = `sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:`
)

func TestVerifiesTheVectorOfRFC9421(t *testing.T) {
	s := readOne(t, b26Input, b26Value)
	if s.Label != "sig-b26" || s.KeyID != "test-key-ed25519" || !s.HasCreated || s.Created != 1618884473 || s.HasExpires {
		t.Errorf("got %+v", s)
	}
	if !s.Verify(testKey(t), testMessage()) {
		t.Error("the signature of B.2.6 is not verified")
	}
	for name, change := range map[string]func(m *Message){
		"method": func(m *Message) { m.Method = "GET" }, "path": func(m *Message) { m.Target = "/bar" }, "host": func(m *Message) { m.Authority = "example.org" },
		"port":          func(m *Message) { m.Authority = "example.com:8443" },
		"header":        func(m *Message) { m.Header = func(string) []string { return []string{"18"} } },
		"no headers":    func(m *Message) { m.Header = nil },
		"scheme's port": func(m *Message) { m.Scheme = "http" },
	} {
		m := testMessage()
		if change(m); s.Verify(testKey(t), m) {
			t.Errorf("it is verified with another %s", name)
		}
	}
	other := testKey(t)
	other[0] ^= 1
	if s.Verify(other, testMessage()) || s.Verify(nil, testMessage()) {
		t.Error("it is verified by another key")
	}
	if s.Alg = "hmac-sha256"; s.Verify(testKey(t), testMessage()) {
		t.Error("it is verified as another algorithm")
	}
}

// The expected values are those of the examples in sections 2.1 and 2.2 of RFC 9421.
func TestBaseHasWhatRFC9421SaysOfEachPart(t *testing.T) {
	for part, want := range map[string]string{
		`"@method"`:              "POST",
		`"@scheme"`:              "https",
		`"@authority"`:           "example.com",
		`"@target-uri"`:          "https://example.com/foo?param=Value&Pet=dog",
		`"@request-target"`:      "/foo?param=Value&Pet=dog",
		`"@path"`:                "/foo",
		`"@query"`:               "?param=Value&Pet=dog",
		`"cache-control"`:        "max-age=60, must-revalidate",
		`"example-dict"`:         "a=1,    b=2;x=1;y=2,   c=(a   b   c), d",
		`"example-dict";key="a"`: "1", `"example-dict";key="b"`: "2;x=1;y=2", `"example-dict";key="c"`: "(a b c)", `"example-dict";key="d"`: "?1",
	} {
		s := readOne(t, "a=("+part+");created=1", "a=:AA==:")
		got, err := s.Base(testMessage())
		if want := part + ": " + want + "\n\"@signature-params\": (" + part + ");created=1"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	m := testMessage()
	for target, want := range map[string]string{"/": "?", "/a?": "?", "https://example.com?x=1": "?x=1", "http://example.com": "?"} {
		m.Target = target
		s := readOne(t, `a=("@query" "@path")`, "a=:AA==:")
		if got, err := s.Base(m); err != nil || !strings.HasPrefix(got, "\"@query\": "+want+"\n\"@path\": /") {
			t.Errorf("of %s got %q, %v", target, got, err)
		}
	}
}

// The vectors of the drafts of Web Bot Auth, from cloudflare/web-bot-auth.
func TestVerifiesTheVectorsOfWebBotAuth(t *testing.T) {
	headers := map[string][]string{"signature-agent": {`agent2="https://signature-agent.test"`}}
	m := &Message{Method: "GET", Scheme: "https", Authority: "example.com", Target: "/path/to/resource", Header: func(name string) []string { return headers[name] }}
	only := readOne(t,
		`sig1=("@authority");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600;nonce="zIW8+cdmA3vdYagbxojpONwa/l0EKJ/O3/wD486VvsQjO/RxPaSt6ZxvQaMcQzNnqKN/mQ6hpGiFro2L2qkz5A==";tag="web-bot-auth"`,
		`sig1=:QKN4fTdIYfh82fvoZCQiQA1weuozfCS/Led2zTMbewMMqH8PI2Wsy/5c4ao6B6D09nraNQdBNOADg8aM1MqfCg==:`)
	withAgent := readOne(t,
		`sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"`,
		`sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:`)
	for _, s := range []Signature{only, withAgent} {
		if !s.Verify(testKey(t), m) || s.Tag != "web-bot-auth" || s.Expires != 4889289600 || !s.Covers("@authority") {
			t.Errorf("%s is not verified", s.Label)
		}
	}
	if got := withAgent.CoveredKeys("signature-agent"); len(got) != 1 || got[0] != "agent2" || withAgent.Covers("signature-agent") || only.CoveredKeys("signature-agent") != nil {
		t.Errorf("got %q", got)
	}
	headers["signature-agent"] = []string{`agent2="https://another.test"`}
	if withAgent.Verify(testKey(t), m) {
		t.Error("it is verified with another agent")
	}
}

func TestReadRefusesWhatIsNoSignature(t *testing.T) {
	for input, value := range map[string]string{
		`a=1`:                              `a=:AA==:`,
		`a=("@method")`:                    `b=:AA==:`,
		`a=("@method");tag=1`:              `a=:AA==:`,
		`a=("@method");created="1"`:        `a=:AA==:`,
		`a=("@method");expires=1.5`:        `a=:AA==:`,
		`a=("@method" "@method")`:          `a=:AA==:`,
		`a=("x";sf)`:                       `a=:AA==:`,
		`a=("x";bs)`:                       `a=:AA==:`,
		`a=("@method";req)`:                `a=:AA==:`,
		`a=("@authority";key="x")`:         `a=:AA==:`,
		`a=(x)`:                            `a=:AA==:`,
		`a=("@method`:                      `a=:AA==:`,
		`b=("@method")`:                    `b="AA=="`,
		`c=("@method")`:                    `c=:A:`,
		"a=(" + strings.Repeat(`"x" `, 99): `a=:AA==:`,
		strings.Repeat("x", maxBytes+1):    `a=:AA==:`,
		`d=("@method")`:                    "d=:" + strings.Repeat("A", maxBytes) + ":",
		"a=(),b=(),c=(),d=(),e=(),f=(),g=(),h=(),i=()": "a=:AA==:",
	} {
		if all, err := Read([]string{input}, []string{value}); err == nil {
			t.Errorf("%.40s was read as %+v", input, all)
		}
	}
	// The bounds are what they say.
	parts := func(n int) string {
		all := ""
		for i := range n {
			all += fmt.Sprintf(` "x%d"`, i)
		}
		return "(" + all + " )"
	}
	for n, isRead := range map[int]bool{maxComponents: true, maxComponents + 1: false} {
		if _, err := Read([]string{"a=" + parts(n)}, []string{"a=:AA==:"}); (err == nil) != isRead {
			t.Errorf("a signature of %d parts: %v", n, err)
		}
	}
	for n, isRead := range map[int]bool{maxSignatures: true, maxSignatures + 1: false} {
		input, value := []string{}, []string{}
		for i := range n {
			input, value = append(input, fmt.Sprintf("a%d=()", i)), append(value, fmt.Sprintf("a%d=:AA==:", i))
		}
		if _, err := Read(input, value); (err == nil) != isRead {
			t.Errorf("%d signatures: %v", n, err)
		}
	}
	for _, part := range []string{`"@status"`, `"@query-param"`, `"missing"`, `"@unknown"`, `"example-dict";key="z"`, `"date";key="a"`} {
		s := readOne(t, "a=("+part+")", "a=:AA==:")
		if base, err := s.Base(testMessage()); err == nil {
			t.Errorf("%s has the base %q", part, base)
		}
	}
	s := readOne(t, `a=("@method" "@authority" "@path" "@target-uri" "@scheme")`, "a=:AA==:")
	if base, err := s.Base(&Message{}); err == nil {
		t.Errorf("of nothing known the base is %q", base)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(b26Input, b26Value, "/foo")
	f.Add(`a=("x";key="y" "@query")`, `a=:AA==:`, "https://a/b?c#d")
	f.Fuzz(func(t *testing.T, input, value, target string) {
		all, err := Read([]string{input}, []string{value})
		if err != nil {
			return
		}
		m := testMessage()
		m.Target = target
		for _, s := range all {
			base, err := s.Base(m)
			if err != nil {
				continue
			}
			if lines := strings.Count(base, "\n"); lines != len(s.components) {
				t.Errorf("the base has %d lines of %d parts: %q", lines, len(s.components), base)
			}
			if s.Verify(testKey(t), m) && input != b26Input {
				t.Errorf("%q is verified", input)
			}
		}
	})
}
