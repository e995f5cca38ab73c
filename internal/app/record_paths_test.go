package app

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// secretsOfRequests are parts of a query, a header and a cookie, which no node keeps.
var secretsOfRequests = []string{"query-4711", "header-4711", "cookie-4711"}

// recordedPaths runs a node that receives paths in all ways, stops it, and returns which texts are found
// in its data directory, its event log, its messages and its last answers about keys and refusals.
func recordedPaths(t *testing.T, args ...string) map[string]bool {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	s, err := Load(append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", folder, "--drain-timeout", "1s", "--preset", "api",
		"--event-log", filepath.Join(folder, "events"), "--event-log-allowed", "100%", "--trusted-proxies", "127.0.0.0/8", "--log-level", "debug"}, args...),
		[]string{"STINT_ADMIN_TOKEN=" + edgeToken})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var said bytes.Buffer
	messages := io.Writer(&lockedWriter{to: &said})
	a, err := New(ctx, s, messages, messages)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	wantWith := func(header http.Header, status int, to net.Addr, method, path, body string) string {
		answer, text := send(t, to, header, method, path, body)
		if answer.StatusCode != status {
			t.Fatalf("%s %s: got %d, want %d: %s", method, path, answer.StatusCode, status, text)
		}
		return text
	}
	want := func(status int, to net.Addr, method, path, body string) string {
		return wantWith(bearer(edgeToken), status, to, method, path, body)
	}
	admin, checks := a.AdminAddr(), a.CheckAddr()
	want(http.StatusCreated, admin, http.MethodPut, "/v1/policies/trap", `{"match":["ip:*"],"when":{"path":["/trap*"]},"rules":["1/h"]}`)
	want(http.StatusCreated, admin, http.MethodPut, "/v1/policies/named?confirm=named", `{"match":["ip:*"],"when":{"query":{"token":["*query*"]},"header":{"x-key":["*header*"]},"cookie":{"session":["*"]}},"rules":["0/1s"]}`)
	want(http.StatusOK, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.1","request":{"path":"/checked-4711?token=query-4711"}}`)
	named := `{"key":"ip:203.0.113.5","request":{"path":"/named-4711?token=query-4711","query":{"token":"query-4711"},"headers":{"x-key":"header-4711"},"cookies":{"session":"cookie-4711"}}}`
	want(http.StatusTooManyRequests, checks, http.MethodPost, "/v1/check", named)
	asked := bearer(edgeToken)
	for name, value := range map[string]string{"X-Forwarded-For": "203.0.113.6", "X-Forwarded-Uri": "/named-4711?token=query-4711&sid=query-4711", "X-Key": "header-4711", "Cookie": "session=cookie-4711"} {
		asked.Set(name, value)
	}
	wantWith(asked, http.StatusTooManyRequests, checks, http.MethodGet, "/v1/forward", "")
	want(http.StatusOK, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.2","request":{"path":"/trapped-4711?token=query-4711"}}`)
	want(http.StatusTooManyRequests, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.2","request":{"path":"/trapped-4711?token=query-4711","agent":"agent-4711"}}`)
	want(http.StatusOK, checks, http.MethodPost, "/v1/report", `{"key":"ip:203.0.113.3","outcome":"not_found","request":{"path":"/reported-4711?token=query-4711"}}`)
	want(http.StatusTooManyRequests, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.4","cost":20,"charge":"always","meta":{"path":"/meta-4711","job":"job-4711"}}`)
	for _, key := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.5", "203.0.113.6"} {
		_, _ = messages.Write([]byte(want(http.StatusOK, admin, http.MethodGet, "/v1/keys/requests/ip:"+key, "")))
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	look := func(content []byte, texts ...string) {
		for _, text := range texts {
			found[text] = found[text] || bytes.Contains(content, []byte(text))
		}
	}
	look(said.Bytes(), secretsOfRequests...)
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		look(content, append([]string{"checked-4711", "trapped-4711", "agent-4711", "reported-4711", "meta-4711", "job-4711", "named-4711"}, secretsOfRequests...)...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// lockedWriter is a writer that several goroutines use.
type lockedWriter struct {
	mu sync.Mutex
	to *bytes.Buffer
}

func (w *lockedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
}

// Of the values of queries, headers and cookies nothing is kept, whatever is recorded.
func TestRecordFalseKeepsValuesOutOfDataFolder(t *testing.T) {
	recordedBy := func(args ...string) map[string]bool {
		all := recordedPaths(t, args...)
		for _, secret := range secretsOfRequests {
			if all[secret] {
				t.Errorf("%q: %s is kept", args, secret)
			}
			delete(all, secret)
		}
		return all
	}
	for text, recorded := range recordedBy() {
		if !recorded {
			t.Errorf("%s is not recorded by default, so the test cannot detect it", text)
		}
	}
	for text, recorded := range recordedBy("--record-paths", "false") {
		if kept := text == "agent-4711" || text == "job-4711"; recorded != kept {
			t.Errorf("--record-paths false: %s is recorded: %v, want %v", text, recorded, kept)
		}
	}
	for text, recorded := range recordedBy("--record-agents", "false") {
		if kept := text != "agent-4711"; recorded != kept {
			t.Errorf("--record-agents false: %s is recorded: %v, want %v", text, recorded, kept)
		}
	}
}
