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
	"testing"
)

// recordedPaths runs a node that receives paths in all ways, stops it, and returns the paths found
// in its data directory.
func recordedPaths(t *testing.T, args ...string) map[string]bool {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	s, err := Load(append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", folder, "--drain-timeout", "1s", "--preset", "api"}, args...),
		[]string{"STINT_ADMIN_TOKEN=" + edgeToken})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	a, err := New(ctx, s, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	want := func(status int, to net.Addr, method, path, body string) {
		if answer, text := send(t, to, bearer(edgeToken), method, path, body); answer.StatusCode != status {
			t.Fatalf("%s %s: got %d, want %d: %s", method, path, answer.StatusCode, status, text)
		}
	}
	admin, checks := a.AdminAddr(), a.CheckAddr()
	want(http.StatusCreated, admin, http.MethodPut, "/v1/policies/trap", `{"match":["ip:*"],"when":{"path":["/trap*"]},"rules":["1/h"]}`)
	want(http.StatusOK, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.1","request":{"path":"/checked-4711"}}`)
	want(http.StatusOK, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.2","request":{"path":"/trapped-4711"}}`)
	want(http.StatusTooManyRequests, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.2","request":{"path":"/trapped-4711","agent":"agent-4711"}}`)
	want(http.StatusOK, checks, http.MethodPost, "/v1/report", `{"key":"ip:203.0.113.3","outcome":"not_found","request":{"path":"/reported-4711"}}`)
	want(http.StatusTooManyRequests, checks, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.4","cost":20,"charge":"always","meta":{"path":"/meta-4711","job":"job-4711"}}`)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range []string{"checked-4711", "trapped-4711", "agent-4711", "reported-4711", "meta-4711", "job-4711"} {
			found[text] = found[text] || bytes.Contains(content, []byte(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRecordFalseKeepsValuesOutOfDataFolder(t *testing.T) {
	for text, recorded := range recordedPaths(t) {
		if !recorded {
			t.Errorf("%s is not recorded by default, so the test cannot detect it", text)
		}
	}
	for text, recorded := range recordedPaths(t, "--record-paths", "false") {
		if kept := text == "agent-4711" || text == "job-4711"; recorded != kept {
			t.Errorf("--record-paths false: %s is recorded: %v, want %v", text, recorded, kept)
		}
	}
	for text, recorded := range recordedPaths(t, "--record-agents", "false") {
		if kept := text != "agent-4711"; recorded != kept {
			t.Errorf("--record-agents false: %s is recorded: %v, want %v", text, recorded, kept)
		}
	}
}
