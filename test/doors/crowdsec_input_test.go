package doors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Any input of a bouncer is answered, and the node continues to answer others.
func TestCrowdSecDoorAnswersBadInput(t *testing.T) {
	b := startBanned(t, "--trusted-proxies", "127.0.0.1")
	b.add("blocks", "ip:192.0.2.1", "1h")
	head := "Host: 127.0.0.1\r\nX-Api-Key: " + b.token + "\r\n"
	flood := strings.Repeat("X-Flood: 1\r\n", 5000)
	for _, c := range []struct {
		name, request string
		status        []int
	}{
		{"a method that changes", "POST /v1/decisions HTTP/1.1\r\n" + head + "Content-Length: 0\r\n\r\n", []int{405}},
		{"DELETE", "DELETE /v1/decisions?ip=192.0.2.1 HTTP/1.1\r\n" + head + "\r\n", []int{405}},
		{"GET of the metrics", "GET /v1/usage-metrics HTTP/1.1\r\n" + head + "\r\n", []int{405}},
		{"an unknown method", "PURGE /v1/decisions HTTP/1.1\r\n" + head + "\r\n", []int{405, 501}},
		{"an unknown path", "GET /v1/alerts HTTP/1.1\r\n" + head + "\r\n", []int{404}},
		{"a query with a bad encoding", "GET /v1/decisions?ip=%zz HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"no valid address", "GET /v1/decisions?ip=example.org HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"two addresses", "GET /v1/decisions?ip=192.0.2.1,192.0.2.2 HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"a NUL in an address", "GET /v1/decisions?ip=192.0.2.1%00 HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"an empty address", "GET /v1/decisions?ip= HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"an empty range", "GET /v1/decisions?range= HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"no valid range", "GET /v1/decisions?range=192.0.2.0/33 HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"a mapped range", "GET /v1/decisions?range=::ffff:192.0.2.0/120 HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"a filter of 100 texts", "GET /v1/decisions/stream?scopes=ip" + strings.Repeat(",ip", 99) + " HTTP/1.1\r\n" + head + "\r\n", []int{200}},
		{"a filter of 101 texts", "GET /v1/decisions/stream?scenarios_containing=a" + strings.Repeat(",a", 100) + " HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"an address with a zone", "GET /v1/decisions?ip=fe80::1%25eth0 HTTP/1.1\r\n" + head + "\r\n", []int{200}},
		{"a hostile key", "GET /v1/decisions?scope=user&value=a%0d%0ab HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"a key that is not UTF-8", "GET /v1/decisions?scope=user&value=%ff HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"a hostile scope", "GET /v1/decisions?scope=%00&value=a HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"a long value", "GET /v1/decisions?scope=user&value=" + strings.Repeat("a", 5000) + " HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		{"unknown scopes", "GET /v1/decisions/stream?startup=true&scopes=country,as,%ff HTTP/1.1\r\n" + head + "\r\n", []int{200}},
		{"many scopes", "GET /v1/decisions/stream?startup=true&scopes=" + strings.Repeat("a,", 4000) + " HTTP/1.1\r\n" + head + "\r\n", []int{400, 414, 431}},
		{"a long query", "GET /v1/decisions?x=" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\n" + head + "\r\n", []int{400, 414, 431}},
		{"a flood of headers", "GET /v1/decisions HTTP/1.1\r\n" + head + flood + "\r\n", []int{400, 431}},
		{"a long token", "GET /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: " + strings.Repeat("a", 4000) + "\r\n\r\n", []int{403}},
		{"two tokens", "GET /v1/decisions HTTP/1.1\r\n" + head + "X-Api-Key: other\r\n\r\n", []int{403}},
		{"a body where none is expected", "GET /v1/decisions?ip=192.0.2.1 HTTP/1.1\r\n" + head + "Content-Length: 2\r\n\r\n{}", []int{200}},
		{"metrics without a body", "POST /v1/usage-metrics HTTP/1.1\r\n" + head + "Content-Length: 0\r\n\r\n", []int{400}},
		{"metrics that are not JSON", "POST /v1/usage-metrics HTTP/1.1\r\n" + head + "Content-Length: 3\r\n\r\n{]}", []int{400}},
		{"metrics that are not UTF-8", "POST /v1/usage-metrics HTTP/1.1\r\n" + head + "Content-Length: 3\r\n\r\n\"\xff\"", []int{400}},
		{"metrics that are too long", fmt.Sprintf("POST /v1/usage-metrics HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", head, 1<<30, strings.Repeat(" ", 8<<10)), []int{413}},
		{"compressed metrics", "POST /v1/usage-metrics HTTP/1.1\r\n" + head + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", []int{400, 415}},
		{"metrics nested deeply", fmt.Sprintf("POST /v1/usage-metrics HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", head, 20000, strings.Repeat("[", 20000)), []int{400}},
	} {
		line := raw(t, b.node.Check, c.request)
		got := 0
		_, _ = fmt.Sscanf(line, "HTTP/1.1 %d", &got)
		if !slices.Contains(c.status, got) {
			t.Errorf("%s: got %q, want %v", c.name, line, c.status)
		}
	}
	if r := b.ask(b.node.Check, http.MethodGet, "/v1/decisions?ip=192.0.2.1", "hostile/<script>", ""); r.status != http.StatusOK || !strings.Contains(r.body, `"192.0.2.1"`) {
		t.Errorf("a valid request afterwards: got %+v", r)
	}
}

// The metrics count the requests of bouncers separately from checks.
func TestCrowdSecDoorPullsAreNotCountedAsChecks(t *testing.T) {
	b := startBanned(t)
	count := func(listener string) (n int) {
		t.Helper()
		for line := range strings.Lines(string(b.node.Do(t, http.MethodGet, "/metrics", "", http.StatusOK))) {
			if strings.HasPrefix(line, "stint_http_request_duration_seconds_count{") && strings.Contains(line, `listener="`+listener+`"`) {
				one := 0
				_, _ = fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &one)
				n += one
			}
		}
		return n
	}
	checks := count("checks")
	b.changes(b.node.Check, "a/v1", "", true)
	b.ask(b.node.Check, http.MethodGet, "/v1/decisions?ip=192.0.2.1", "a/v1", "")
	if n := count("checks"); n != checks {
		t.Errorf("%d pulls are counted as checks, want 0", n-checks)
	}
	if n := count("bouncers"); n != 2 {
		t.Errorf("%d requests of bouncers are counted, want 2", n)
	}
}

// A bouncer keeps its blocks while the node is down, and continues afterwards
// with the changes.
func TestCustomBouncerResumesAfterANodeRestart(t *testing.T) {
	b := startBanned(t)
	one := b.add("blocks", "ip:192.0.2.1", "1h")
	p := b.startProbe()
	p.expect("at the start", "add 192.0.2.1 by hand")
	b.node.Crash()
	b.node.Restart(t)
	b.end("blocks", one)
	b.add("blocks", "ip:192.0.2.2", "1h")
	p.expect("after the restart", "del 192.0.2.1 by hand", "add 192.0.2.2 by hand")
}

// The list shows the name of a bouncer without control characters.
func TestHostileBouncerNameIsListedAsPlainText(t *testing.T) {
	b := startBanned(t)
	b.ask(b.node.Check, http.MethodGet, "/v1/decisions/stream?startup=true", "<script>'\"\t\xc3\xa9/"+strings.Repeat("9", 500), "")
	var listed struct {
		Items []struct{ Type, Version string }
	}
	if err := json.Unmarshal(b.node.Do(t, http.MethodGet, "/v1/bouncers", "", http.StatusOK), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed.Items) != 1 || listed.Items[0].Type != `<script>'"` || len(listed.Items[0].Version) != 64 {
		t.Errorf("listed %+v", listed.Items)
	}
}
