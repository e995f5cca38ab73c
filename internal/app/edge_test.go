package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
)

const edgeToken = "edce0adca9f5c1b7d2830694ef1a5c3d"

// startApp runs an embedded node until the test ends.
func startApp(t *testing.T, args ...string) *App {
	t.Helper()
	return startLogged(t, io.Discard, args...)
}

// startLogged is startApp with its log.
func startLogged(t *testing.T, logs io.Writer, args ...string) *App {
	t.Helper()
	s, err := Load(append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(t.TempDir(), "data"), "--drain-timeout", "1s"}, args...),
		[]string{"STINT_ADMIN_TOKEN=" + edgeToken})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	a, err := New(ctx, s, io.Discard, logs)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the node stopped with %v", err)
		}
	})
	return a
}

// bearer is the header of a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// send sends JSON to a listener of a node and returns the answer and its body.
func send(t *testing.T, to net.Addr, header http.Header, method, path, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+to.String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// exchange sends bytes on one connection and returns all responses.
func exchange(t *testing.T, address net.Addr, text string) []*http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// The node may close the connection before all is written; the answers show it.
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	var answers []*http.Response
	from := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(from, nil)
		if err != nil {
			return answers
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return answers
		}
		answer.Body = io.NopCloser(strings.NewReader(string(body)))
		answers = append(answers, answer)
	}
}

// pathOf returns a path of a route that responds quickly.
func pathOf(r httpserver.Route, name string) string {
	path := strings.NewReplacer(":name", name, ":id", "1", ":handle", "1", "*", "1").Replace(r.Path)
	if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
		path += "?seconds=0.001" // less than a profile may take: refused
	}
	return path
}

func TestNoRouteParsesBodyAsRequest(t *testing.T) {
	const (
		hidden   = "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: smuggled-request-01\r\n\r\n"
		followUp = "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: follow-up-request-1\r\n\r\n"
	)
	type framed struct {
		size int
		text string
	}
	var bodies []framed // made once for all routes
	for _, size := range []int{100, 4096, 8192, 20_000, 300_000} {
		// The body ends with complete requests.
		body := strings.Repeat("a", size%len(hidden)) + strings.Repeat(hidden, size/len(hidden))
		bodies = append(bodies,
			framed{size, fmt.Sprintf("Content-Length: %d\r\n\r\n%s%s", len(body), body, followUp)},
			framed{size, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n%s", len(body), body, followUp)})
	}
	a := startApp(t)
	for _, r := range a.server.Routes() {
		if strings.HasPrefix(r.Path, "/v1/events") || strings.HasPrefix(r.Path, "/events") {
			continue // a stream does not end by itself, and reads no body
		}
		address := a.AdminAddr()
		if r.Listener == httpserver.Checks {
			address = a.CheckAddr()
		}
		path := pathOf(r, "none")
		for _, who := range []string{"", "Authorization: Bearer " + edgeToken + "\r\n"} {
			start := r.Method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n" + who
			for _, body := range bodies {
				answers := exchange(t, address, start+body.text)
				good := len(answers) == 1 || len(answers) == 2 && answers[1].Header.Get("X-Request-Id") == "follow-up-request-1"
				if !good || answers[0].Header.Get("X-Request-Id") == "smuggled-request-01" {
					t.Fatalf("%s %s with %d bytes: got %d responses: %+v", r.Method, path, body.size, len(answers), answers)
				}
			}
		}
	}
}

func TestEveryResponseHasNosniffHeader(t *testing.T) {
	a := startApp(t)
	ask := func(address net.Addr, line, more string) {
		t.Helper()
		answers := exchange(t, address, line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+more+"\r\n")
		if len(answers) != 1 || answers[0].Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %+v, want the header X-Content-Type-Options: nosniff", line, answers)
		}
	}
	for _, r := range a.server.Routes() {
		if strings.HasPrefix(r.Path, "/v1/events") || strings.HasPrefix(r.Path, "/events") {
			continue
		}
		address := a.AdminAddr()
		if r.Listener == httpserver.Checks {
			address = a.CheckAddr()
		}
		path := pathOf(r, "default")
		ask(address, r.Method+" "+path, "Content-Length: 0\r\n")
		ask(address, r.Method+" "+path, "Content-Length: 0\r\nAuthorization: Bearer "+edgeToken+"\r\n")
	}
	for _, address := range []net.Addr{a.AdminAddr(), a.CheckAddr()} {
		ask(address, "GET /nothing", "")
		ask(address, "TRACE /livez", "")
		ask(address, "BREW /livez", "")
		ask(address, "GET /livez", "no header\r\n")
	}
}

func TestBareLFIsRejectedOnBothListeners(t *testing.T) {
	a := startApp(t)
	for name, text := range map[string]string{
		"request line":   "GET /livez HTTP/1.1\nHost: localhost\r\n\r\n",
		"header":         "GET /livez HTTP/1.1\r\nHost: localhost\nX-A: b\r\n\r\n",
		"end":            "GET /livez HTTP/1.1\r\nHost: localhost\r\n\n",
		"all":            "GET /livez HTTP/1.1\nHost: localhost\n\n",
		"before":         "\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"chunk":          "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
		"second request": "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\nHost: localhost\r\n\r\n",
		"between":        "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		for _, address := range []net.Addr{a.AdminAddr(), a.CheckAddr()} {
			t.Run(name, func(t *testing.T) {
				answers := exchange(t, address, text)
				if len(answers) == 0 {
					t.Fatal("got no response")
				}
				last := answers[len(answers)-1]
				body, _ := io.ReadAll(last.Body)
				if name == "chunk" && address == a.AdminAddr() { // there is no such path
					if len(answers) != 1 {
						t.Fatalf("got %d answers", len(answers))
					}
					return
				}
				if last.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "end every line with CRLF") || len(answers) > 2 {
					t.Fatalf("got %d responses, the last with the status %d: %s", len(answers), last.StatusCode, body)
				}
			})
		}
	}
}

func TestHostsThatAreNotAllowedNeedToken(t *testing.T) {
	status := func(address net.Addr, line, host, more string) int {
		t.Helper()
		answers := exchange(t, address, line+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\nContent-Length: 0\r\n"+more+"\r\n")
		if len(answers) != 1 {
			t.Fatalf("got %d answers", len(answers))
		}
		if body, _ := io.ReadAll(answers[0].Body); answers[0].StatusCode == http.StatusMisdirectedRequest && !strings.Contains(string(body), "llowed-hosts") {
			t.Errorf("the refusal does not name allowed-hosts: %s", body)
		}
		return answers[0].StatusCode
	}
	a := startApp(t, "--allowed-hosts", "stint.example.com, *.internal.example")
	const check, login = "POST /v1/check", "GET /login"
	for host, allowed := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "app.localhost": true, "127.0.0.1:8080": true, "192.168.1.7": true, "[::1]:8080": true,
		"stint.example.com": true, "Stint.Example.Com.:8080": true, "a.internal.example": true,
		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "internal.example": false,
		"stint.example.com.evil.example": false, "xstint.example.com": false, "127.0.0.1@evil.example": false,
	} {
		if got := status(a.CheckAddr(), check, host, ""); (got == http.StatusMisdirectedRequest) == allowed {
			t.Errorf("a check with the host %s: got %d, want it allowed: %v", host, got, allowed)
		}
		if got := status(a.AdminAddr(), login, host, ""); (got == http.StatusMisdirectedRequest) == allowed {
			t.Errorf("the login with the host %s: got %d, want it allowed: %v", host, got, allowed)
		}
	}
	for line, want := range map[string]int{"GET /livez": 200, "GET /v1/blocks": http.StatusMisdirectedRequest} {
		if got := status(a.AdminAddr(), line, "evil.example", ""); got != want {
			t.Errorf("%s: got %d, want %d", line, got, want)
		}
	}
	if got := status(a.AdminAddr(), "GET /v1/blocks", "evil.example", "Authorization: Bearer "+edgeToken+"\r\n"); got != 200 {
		t.Errorf("with a token: got %d, want 200", got)
	}
	if got := status(a.AdminAddr(), "GET /login", "evil.example", "Authorization: Bearer guess\r\n"); got != http.StatusMisdirectedRequest {
		t.Errorf("with a wrong token: got %d, want 421", got)
	}
	for _, args := range [][]string{{"--check-auth", "token"}, {"--allowed-hosts", "*"}} {
		if got := status(startApp(t, args...).CheckAddr(), check, "evil.example", ""); got == http.StatusMisdirectedRequest {
			t.Errorf("with %v: got %d, want the check allowed", args, got)
		}
	}
}

func TestDataFolderIsReadableOnlyByOwner(t *testing.T) {
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	run := func(dir string) {
		s, err := Load([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(t.Context(), s, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		if got := mode(dir); got != 0o700 {
			t.Errorf("the folder has mode %o, want 700", got)
		}
		for _, name := range []string{"lock", "stint.db", "stint.db-wal", "stint.db-shm"} {
			if got := mode(filepath.Join(dir, name)); got != 0o600 {
				t.Errorf("%s has mode %o, want 600", name, got)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "made beforehand")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(dir)
	// The modes of an older version.
	for name, loose := range map[string]os.FileMode{"": 0o755, "stint.db": 0o644, "lock": 0o664} {
		if err := os.Chmod(filepath.Join(dir, name), loose); err != nil {
			t.Fatal(err)
		}
	}
	run(dir)

	shared := t.TempDir()
	for _, other := range []func() error{
		func() error { return os.WriteFile(filepath.Join(shared, "somebody's"), nil, 0o600) },
		func() error { return os.Chmod(shared, 0o755) },
	} {
		if err := other(); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := openDataDir(shared); err == nil || !strings.Contains(err.Error(), filepath.Join(shared, "stint")) || strings.Contains(err.Error(), "\n") {
		t.Errorf("openDataDir of a shared folder = %v, %v, want an error", d, err)
	}
	if got := mode(shared); got != 0o755 {
		t.Errorf("the shared folder has mode %o now, want 755", got)
	}
	if _, err := os.Stat(filepath.Join(shared, "lock")); err == nil {
		t.Error("the shared folder contains a lock now")
	}
}

func TestClientAddressComesOnlyFromConfiguredHeader(t *testing.T) {
	whoami := func(a *App, headers string) string {
		t.Helper()
		answers := exchange(t, a.AdminAddr(), "GET /v1/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+edgeToken+"\r\n"+headers+"\r\n")
		if len(answers) != 1 || answers[0].StatusCode != 200 {
			t.Fatalf("got %+v", answers)
		}
		body, _ := io.ReadAll(answers[0].Body)
		_, rest, _ := strings.Cut(string(body), `"address":"`)
		address, _, _ := strings.Cut(rest, `"`)
		return address
	}
	a := startApp(t, "--trusted-proxies", "127.0.0.0/8")
	for headers, want := range map[string]string{
		"": "127.0.0.1",
		"X-Forwarded-For: 198.51.100.9\r\nForwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.2\r\n": "198.51.100.9",
		"X-Forwarded-For: 192.0.2.3, 198.51.100.9\r\n":                                          "198.51.100.9",
		"X-Forwarded-For: 127.0.0.1\r\n":                                                        "::",
		"X-Forwarded-For: 127.0.0.1, ::1\r\n":                                                   "::",
	} {
		if got := whoami(a, headers); got != want {
			t.Errorf("%q: got %s, want %s", headers, got, want)
		}
	}
	// A guesser is one client, whatever addresses it sends in other headers.
	limited := false
	for i := range 25 {
		answers := exchange(t, a.AdminAddr(), fmt.Sprintf("GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer guess\r\nForwarded: for=192.0.2.%d\r\nX-Real-IP: 192.0.2.%d\r\nX-Forwarded-For: 192.0.2.%d, 198.51.100.9\r\n\r\n", i, i, i))
		limited = limited || len(answers) == 1 && answers[0].StatusCode == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("25 guesses from one address were not throttled")
	}
	b := startApp(t, "--trusted-proxies", "127.0.0.0/8", "--client-address-header", "x-real-ip")
	for headers, want := range map[string]string{
		"X-Forwarded-For: 192.0.2.3\r\nX-Real-IP: 198.51.100.9\r\n": "198.51.100.9",
		"X-Forwarded-For: 192.0.2.3\r\n":                            "127.0.0.1",
		"X-Real-IP: 127.0.0.1\r\n":                                  "::",
	} {
		if got := whoami(b, headers); got != want {
			t.Errorf("with X-Real-IP, %q: got %s, want %s", headers, got, want)
		}
	}
}
