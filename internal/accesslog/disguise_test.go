package accesslog

import (
	"strings"
	"testing"

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

func TestIsAssetRejectsDisguisedPaths(t *testing.T) {
	for _, target := range []string{"/wp-login.php/x.css", "/phpmyadmin/index.PHP/a.js", "/.env/.js", "/.git/config;.css", "/.git/a.png", "/cgi-bin/x.cgi/a.ico", "/cgi-bin/status.sh/x.css", "/shell.phtml/x.css", "/login.action/x.js", "/a;b.css", "/x.css;.php", "/x.css;jsessionid=1", "/x%3B.css", "/.css"} {
		if isAsset(target) {
			t.Errorf("isAsset(%s) is true, want false", target)
		}
	}
	for _, target := range []string{"/a.css", "/favicon.ico", "/robots.txt", "/assets/v1.2/app.min.js?v=3", "/.well-known/icon.png", "/php/logo.PNG"} {
		if !isAsset(target) {
			t.Errorf("isAsset(%s) is false, want true", target)
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
