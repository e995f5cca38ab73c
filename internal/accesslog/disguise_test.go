package accesslog

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/conditions"
)

// parseOne reads one line as the first of a log.
func parseOne(t *testing.T, o Options, line string) Record {
	t.Helper()
	p, err := NewLineParser([]byte(line), o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEscapedQuoteDoesNotEndTheRequest reads a request that contains what looks like the rest of the line.
func TestEscapedQuoteDoesNotEndTheRequest(t *testing.T) {
	const line = `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET /\" 200 \"a\" \"b\" HTTP/1.1" 400 226 "ref" "203.0.113.99" "198.51.100.5"`
	if r := parseOne(t, Options{}, line); r.Status != 400 || r.Agent != "203.0.113.99" {
		t.Errorf("got %+v", r)
	}
	if r := parseOne(t, Options{Key: "x_forwarded_for"}, line); r.Key.String() != "ip:198.51.100.5" {
		t.Errorf("the key is %s", r.Key)
	}
}

func TestRequestedHostIsNotTheClient(t *testing.T) {
	for _, line := range []string{
		`{"@timestamp":"2025-10-10T13:55:36Z","host":{"name":"web-1"},"source":{"ip":"192.0.2.1"},"url":{"path":"/"}}`,
		`{"time":"2025-10-10T13:55:36Z","host":"203.0.113.9","request":{"client_ip":"192.0.2.1","uri":"/"},"status":200}`,
		`{"time":"2025-10-10T13:55:36Z","host":"example.org","ClientHost":"192.0.2.1","status":200}`,
	} {
		if r := parseOne(t, Options{}, line); r.Key.String() != "ip:192.0.2.1" {
			t.Errorf("%s: the key is %s", line, r.Key)
		}
	}
}

func TestLongPaddedPathIsNormalized(t *testing.T) {
	for _, padding := range []string{"/", "/.", "/%2e", "/a/.."} {
		line := `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET ` + strings.Repeat(padding, maxText) + `/.env HTTP/1.1" 200 1 "-" "curl"`
		if r := parseOne(t, Options{}, line); conditions.NormalizePath(r.Path) != "/.env" {
			t.Errorf("behind the padding %q: got the path %.20q, want /.env", padding, conditions.NormalizePath(r.Path))
		}
	}
}

// nginx without escape=json writes escapes that are not JSON.
func TestJSONWithNginxEscapesIsRead(t *testing.T) {
	line := `{"time":"2025-10-10T13:55:36Z","remote_addr":"192.0.2.1","request":"GET /.env HTTP/1.1","http_user_agent":"\x22\x5Cu0041\xC3","status":404}`
	if r := parseOne(t, Options{}, line); r.Key.String() != "ip:192.0.2.1" || r.Path != "/.env" {
		t.Errorf("got %+v", r)
	}
}

// What is no request of HTTP has an outcome of its own; what servers write of connections without a request
// has none.
func TestWhatIsNoRequestIsRecognized(t *testing.T) {
	for line, want := range map[string]bool{
		`\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03`: true, `\x16\x03 \x01 HTTP/1.1`: true, `SSH-2.0-Go`: true, `27%0A/bin/sh -c id HTTP/1.1`: true,
		`\x03\x00\x00/*\xE0\x00\x00\x00\x00\x00Cookie: mstshash=hello`: true, `t3 12.1.2`: true, `OPTIONS sip:nm SIP/2.0`: true, `GET login.cgi HTTP/1.0`: true, `MGLNDD_192.0.2.1_80`: true,
		``: false, `-`: false, `<BADREQ>`: false, `- - -`: false, `GET / HTTP/1.1`: false, `GET /a b HTTP/1.1`: false, `OPTIONS * HTTP/1.0`: false, `M-SEARCH * HTTP/1.1`: false,
		`GET http://example.org/ HTTP/1.1`: false, `CONNECT example.org:443 HTTP/1.1`: false, `PRI * HTTP/2.0`: false, `VERSION-CONTROL /x HTTP/1.1`: false,
	} {
		r := parseOne(t, Options{}, `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "`+line+`" 400 226 "-" "-"`)
		if got := slices.Contains(r.AppendOutcomes(nil, answers.DefaultOutcomes(nil)), answers.NotHTTP); got != want {
			t.Errorf("%s: is no request is %t, want %t", line, got, want)
		}
	}
}
