package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

const testToken = "an-admin-token-for-tests-0123456789-abcdefghijklmnop"

// testNode is a node that runs in this process.
type testNode struct {
	*App
	log  *servers.Output
	stop func()
	// lost is part of the error that stopping is expected to end with, because the test took away
	// what the node saves to; empty for none.
	lost string
}

func startNode(t *testing.T, redis *servers.RedisServer, databaseURL, folder string, more ...string) *testNode {
	t.Helper()
	args := append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", folder,
		"--redis-url", redis.URL, "--redis-prefix", redis.Prefix, "--database-url", databaseURL, "--drain-timeout", "1s"}, more...)
	s, err := Load(args, []string{"STINT_ADMIN_TOKEN=" + testToken})
	if err != nil {
		t.Fatal(err)
	}
	log := &servers.Output{}
	ctx, stop := context.WithCancel(context.Background())
	a, err := New(ctx, s, io.Discard, log)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	n := &testNode{App: a, log: log}
	n.stop = sync.OnceFunc(func() {
		stop()
		err := <-ended
		switch {
		case n.lost == "" && err != nil:
			t.Error(err)
		case n.lost != "" && (err == nil || !strings.Contains(err.Error(), n.lost)):
			t.Errorf("stopping ended with %v, want an error with %q", err, n.lost)
		}
	})
	t.Cleanup(n.stop)
	return n
}

// ask sends a request and returns the status and the body.
func (n *testNode) ask(t *testing.T, admin bool, method, path, body, token string) (int, string) {
	t.Helper()
	address := n.CheckAddr()
	if admin {
		address = n.AdminAddr()
	}
	header := http.Header{}
	if token != "" {
		header = bearer(token)
	}
	answer, text := send(t, address, header, method, path, body)
	return answer.StatusCode, text
}

func (n *testNode) check(t *testing.T, key string) int {
	t.Helper()
	status, _ := n.ask(t, false, "POST", "/v1/check", `{"key":"`+key+`"}`, "")
	return status
}

func (n *testNode) block(t *testing.T, pattern string) (int, string) {
	t.Helper()
	return n.ask(t, true, "POST", "/v1/blocks", `{"literal":true,"pattern":"`+pattern+`","reason":"test"}`, testToken)
}

// metrics returns the metrics as text.
func (n *testNode) metricsText(t *testing.T) string {
	t.Helper()
	status, body := n.ask(t, true, "GET", "/metrics", "", testToken)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return body
}

// wantCalls checks that the calls to Redis and the database are measured, and a check by
// its door and outcome.
func wantCalls(t *testing.T, n *testNode) {
	t.Helper()
	n.check(t, "metrics:calls")
	text := n.metricsText(t)
	for _, series := range []string{
		`stint_check_duration_seconds_count{door="check",outcome="allowed"}`, `stint_redis_call_duration_seconds_count{command="decide",result="ok"}`,
		`stint_redis_call_duration_seconds_count{command="other",result="ok"}`, `stint_database_transaction_duration_seconds_count{kind="read",result="ok"}`,
		`stint_database_transaction_duration_seconds_count{kind="change",result="ok"}`,
	} {
		if !strings.Contains(text, "\n"+series+" ") {
			t.Errorf("the metrics have no %s", series)
		}
	}
}

func (n *testNode) ready(t *testing.T) (int, wire.Readiness) {
	t.Helper()
	status, body := n.ask(t, false, "GET", "/readyz", "", "")
	var r wire.Readiness
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return status, r
}

func detail(r wire.Readiness, part string) string {
	for _, p := range r.Parts {
		if p.Name == part {
			return p.Detail
		}
	}
	return ""
}

// awaitSaved waits until the node has written its current revision.
func (n *testNode) awaitSaved(t *testing.T) {
	t.Helper()
	servers.Await(t, "the last known state is written", func() bool {
		saved, _, err := n.lastKnown.load()
		return err == nil && saved.Revision == n.catalog.Revision()
	})
}

func TestNodeStartsWithoutDatabaseFromLastKnownState(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	redis := servers.Redis(t)
	folder := filepath.Join(t.TempDir(), "data")
	first := startNode(t, redis, server.URL, folder)
	if status, body := first.block(t, "ip:192.0.2.1"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := first.ask(t, true, "POST", "/v1/exemptions", `{"literal":true,"pattern":"ip:192.0.2.7","reason":"test"}`, testToken); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := first.block(t, "ip:192.0.2.7"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := first.ask(t, true, "PUT", "/v1/policies/tight", `{"match":["token:*"],"rules":["1/d"]}`, testToken); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	wantCalls(t, first)
	if !strings.Contains(first.metricsText(t), "\nstint_started_from_saved_state 0\n") {
		t.Error("stint_started_from_saved_state is not 0 after a start with the database")
	}
	first.awaitSaved(t)
	file := first.lastKnown.path
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	first.stop()

	server.Kill()
	n := startNode(t, redis, server.URL, folder)
	if status := n.check(t, "ip:192.0.2.1"); status != http.StatusForbidden {
		t.Errorf("a blocked key: got %d, want 403", status)
	}
	if status := n.check(t, "ip:192.0.2.7"); status != http.StatusOK {
		t.Errorf("an exempt key: got %d, want 200", status)
	}
	if a, b := n.check(t, "token:x"), n.check(t, "token:x"); a != http.StatusOK || b != http.StatusTooManyRequests {
		t.Errorf("a limited key: got %d and %d, want 200 and 429", a, b)
	}
	status, r := n.ready(t)
	if status != http.StatusOK || !r.Ready || r.Changes || !strings.Contains(detail(r, "policies"), "kept in the data directory") {
		t.Errorf("/readyz: got %d %+v", status, r)
	}
	if status, body := n.block(t, "ip:192.0.2.2"); status != http.StatusServiceUnavailable || !strings.Contains(body, "database") {
		t.Errorf("a change: got %d %s", status, body)
	}
	page, body := send(t, n.AdminAddr(), http.Header{"Cookie": {"stint_session=of-before"}}, "GET", "/", "")
	if page.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "It has not answered since this node started.") {
		t.Errorf("a page: got %d %s", page.StatusCode, body)
	}
	if n.log.Count("this node answers checks by the policies and blocks kept") != 1 {
		t.Errorf("got the log %s", n.log)
	}

	server.Restart(false)
	servers.Await(t, "the node accepts changes", func() bool { _, r := n.ready(t); return r.Changes })
	if status, body := n.block(t, "ip:192.0.2.2"); status != http.StatusCreated {
		t.Errorf("a change: got %d %s", status, body)
	}
	if a, b := n.check(t, "ip:192.0.2.1"), n.check(t, "ip:192.0.2.2"); a != http.StatusForbidden || b != http.StatusForbidden {
		t.Errorf("blocked keys: got %d and %d, want 403", a, b)
	}
	if _, r := n.ready(t); detail(r, "policies") != "" {
		t.Errorf("/readyz: got %+v, want no detail about policies", r)
	}
	if !strings.Contains(n.metricsText(t), "\nstint_started_from_saved_state 1\n") {
		t.Error("stint_started_from_saved_state is not 1 after a start without the database")
	}
	n.awaitSaved(t)
}

func TestNodeWithCheckTokensStartsWithoutDatabase(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	redis := servers.Redis(t)
	folder := t.TempDir()
	first := startNode(t, redis, server.URL, folder, "--check-auth", "token")
	status, body := first.ask(t, true, "POST", "/v1/tokens", `{"name":"edge","scopes":["check"]}`, testToken)
	var made struct{ Secret, Token string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	secret := made.Secret
	if secret == "" {
		secret = made.Token
	}
	first.awaitSaved(t)
	first.stop()
	content, err := os.ReadFile(first.lastKnown.path)
	if err != nil || bytes.Contains(content, []byte(secret)) {
		t.Fatalf("the file contains the token itself, %v", err)
	}
	server.Kill()
	n := startNode(t, redis, server.URL, folder, "--check-auth", "token")
	n.lost = "the last offences are lost"
	if status, body := n.ask(t, false, "POST", "/v1/check", `{"key":"a"}`, secret); status != http.StatusOK {
		t.Errorf("a check with a token: got %d %s, want 200", status, body)
	}
	if status, _ := n.ask(t, false, "POST", "/v1/check", `{"key":"a"}`, ""); status != http.StatusUnauthorized {
		t.Errorf("a check without a token: got %d, want 401", status)
	}
	if status, _ := n.ask(t, false, "POST", "/v1/check", `{"key":"a"}`, testToken); status != http.StatusServiceUnavailable {
		t.Errorf("a check with an unknown token: got %d, want 503", status)
	}
}

func TestUnusableLastKnownStateIsIgnoredAndLogged(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	redis := servers.Redis(t)
	good := t.TempDir()
	first := startNode(t, redis, server.URL, good)
	if status, body := first.block(t, "ip:192.0.2.1"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	first.awaitSaved(t)
	first.stop()
	content, err := os.ReadFile(first.lastKnown.path)
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	flipped := bytes.Clone(content)
	flipped[len(flipped)/2] ^= 1
	newer := bytes.Replace(content, []byte(`"version":`), []byte(`"version":9`), 1)
	foreign := bytes.Replace(content, []byte("postgres:"), []byte("postgres;"), 1)
	for name, c := range map[string]struct {
		content []byte
		mode    os.FileMode
		want    string
	}{
		"truncated": {content[:len(content)-9], 0o600, "cut off"}, "flipped": {flipped, 0o600, "damaged"}, "empty": {nil, 0o600, "not a file of this kind"},
		"text":   {[]byte("hello, this is some text that is no such file at all"), 0o600, "not a file of this kind"},
		"longer": {append(bytes.Clone(content), 'x'), 0o600, "follows its end"},
		"newer":  {newer, 0o600, "format"}, "foreign": {foreign, 0o600, "another database"}, "open to others": {content, 0o644, "only this user"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, filepath.Base(first.lastKnown.path))
			if err := os.WriteFile(path, c.content, c.mode); err != nil {
				t.Fatal(err)
			}
			n := startNode(t, redis, server.URL, folder)
			if n.log.Count("kept in the data directory are ignored") != 1 || n.log.Count(c.want) != 1 {
				t.Errorf("got the log %s", n.log)
			}
			if status, r := n.ready(t); status != http.StatusServiceUnavailable || r.Ready {
				t.Errorf("/readyz: got %d %+v", status, r)
			}
			if status := n.check(t, "ip:192.0.2.1"); status != http.StatusServiceUnavailable {
				t.Errorf("a check: got %d, want 503", status)
			}
		})
	}
}

func TestNodeRunsWithoutWritableDataFolder(t *testing.T) {
	database, redis := servers.Postgres(t).URL, servers.Redis(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, redis, database, filepath.Join(file, "data"))
	n.lost = "the last known policies and blocks are not saved"
	const warning = "cannot be written to the data directory"
	servers.Await(t, "the warning is logged", func() bool { return n.log.Count(warning) > 0 })
	for _, pattern := range []string{"ip:192.0.2.1", "ip:192.0.2.2", "ip:192.0.2.3"} {
		if status, body := n.block(t, pattern); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		servers.Await(t, "another write is tried", func() bool { return len(n.lastKnown.dirty) == 0 })
	}
	if got := n.log.Count(warning); got != 1 {
		t.Errorf("the warning is logged %d times, want once", got)
	}
}

func TestTwoNodesShareLastKnownStateFile(t *testing.T) {
	database, redis := servers.Postgres(t).URL, servers.Redis(t)
	folder := t.TempDir()
	a, b := startNode(t, redis, database, folder), startNode(t, redis, database, folder)
	a.awaitSaved(t)
	for i, n := range []*testNode{a, b, a, b, a, b, a, b} {
		if status, body := n.block(t, "ip:192.0.2."+string(rune('1'+i))); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		if _, _, err := a.lastKnown.load(); err != nil {
			t.Fatalf("loading between two writes: %v", err)
		}
	}
	servers.Await(t, "the file contains the last change", func() bool {
		saved, _, err := a.lastKnown.load()
		return err == nil && len(saved.Entries) == 8
	})
	a.stop()
	b.stop()
	left, err := filepath.Glob(filepath.Join(folder, ".last-known-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// TestLastKnownStateIsWrittenAgainAfterFailedWrite replaces the data directory by a file
// for a while, during which the catalog changes.
func TestLastKnownStateIsWrittenAgainAfterFailedWrite(t *testing.T) {
	n := newRestoring(t)
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := newLastKnown(folder, "db", slog.New(slog.DiscardHandler))
	n.block("token:attacker")
	k.changed()
	<-k.dirty
	if k.save(n.catalog); !k.broken {
		t.Fatal("save succeeded without a folder")
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	k.confirm(n.catalog)
	select {
	case <-k.dirty:
		k.save(n.catalog)
	default:
		t.Fatal("confirm did not request another write")
	}
	if saved, _, err := k.load(); err != nil || len(saved.Entries) != 1 {
		t.Errorf("got %+v, %v", saved, err)
	}
}
