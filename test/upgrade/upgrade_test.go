package upgrade_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/servers"
)

// forever keeps nodes from deleting old data of a fixture.
var forever = []string{"--schedules", "delete-past-retention=off;delete-counts=off", "--keep-minutes", "3650d"}

// wantKept fails the test unless the node has everything that fill has stored on another version.
func (n *node) wantKept(f fixture, token string) {
	n.t.Helper()
	type named struct {
		Items []struct{ Name, Pattern, Role, Text, Algorithm, Outcome string }
	}
	has := func(path, what string, is func(i int, items named) bool) {
		n.t.Helper()
		items := do[named](n, http.MethodGet, path, "")
		for i := range items.Items {
			if is(i, items) {
				return
			}
		}
		n.t.Errorf("%s: %s is missing: %+v", path, what, items.Items)
	}
	if rules := do[struct{ Rules []string }](n, http.MethodGet, "/v1/policies/api", "").Rules; !slices.Equal(rules, []string{"3/31d"}) {
		n.t.Errorf("the policy api has the rules %q", rules)
	}
	has("/v1/policies", "an algorithm", func(i int, x named) bool { return x.Items[i].Name == "fixed" && x.Items[i].Algorithm == "fixed_window" })
	has("/v1/policies", "an outcome", func(i int, x named) bool {
		return x.Items[i].Name == "guessing" && x.Items[i].Outcome == "login_failed"
	})
	has("/v1/blocks", "a block", func(i int, x named) bool { return x.Items[i].Pattern == "ip:203.0.113.0/24" })
	has("/v1/exemptions", "an exemption", func(i int, x named) bool { return x.Items[i].Pattern == "ip:198.51.100.7" })
	has("/v1/users", "a user", func(i int, x named) bool { return x.Items[i].Name == "maria" && x.Items[i].Role == "operator" })
	has("/v1/keys/notes?key=token:alice", "a note", func(i int, x named) bool { return x.Items[i].Text == "Same client as in July." })
	if status, text, err := as(token, http.MethodGet, n.admin+"/v1/whoami", ""); err != nil || status != http.StatusOK {
		n.t.Errorf("a token of the old version: got status %d, %v: %s", status, err, text)
	}
	if d := n.mustAsk(`{"key":"ip:203.0.113.9","peek":true}`); d.Decision != "blocked" {
		n.t.Errorf("a blocked key: got %s", d.Decision)
	}
	if keys := n.offenders(time.UnixMilli(f.MadeAt)); !slices.Contains(keys, "token:alice") || !slices.Contains(keys, "user:bob") {
		n.t.Errorf("got the offenders %q", keys)
	}
	if chain := do[struct{ Intact bool }](n, http.MethodGet, "/v1/audit/verify", ""); !chain.Intact {
		n.t.Error("the audit chain is not intact")
	}
}

// wantLimits fails the test unless the node has the counts of the old version.
func (n *node) wantLimits() {
	n.t.Helper()
	for key, policy := range map[string]string{"token:alice": "api", "user:bob": "fixed"} {
		if d := n.mustAsk(`{"key":"` + key + `","peek":true}`); d.Decision != "limited" || d.Policy != policy || d.Degraded {
			n.t.Errorf("%s, whose limit is used up: got %+v", key, d)
		}
	}
	if d := n.mustAsk(`{"key":"token:carol","peek":true}`); d.Decision != "allowed" {
		n.t.Errorf("a new key: got %+v", d)
	}
}

// wantDownAndUp undoes the migrations that the old version does not know, or one if
// it knows all, and runs them again.
func wantDownAndUp(t testing.TB, database string, f fixture) {
	t.Helper()
	state, err := db.MigrationStatus(t.Context(), database)
	if err != nil || state.Version != state.Latest {
		t.Fatalf("the database is at %+v, %v", state, err)
	}
	to := min(f.Schema, state.Latest-1)
	if err := db.MigrateDown(t.Context(), database, to); err != nil {
		t.Fatal(err)
	}
	if after, err := db.MigrationStatus(t.Context(), database); err != nil || after.Version != to || after.Dirty {
		t.Fatalf("after migrating down to %d the database is at %+v, %v", to, after, err)
	}
	if err := db.MigrateDown(t.Context(), database, to); err == nil {
		t.Error("MigrateDown to the current version: got no error")
	}
	if *oldProgram != "" && to == f.Schema {
		return // the old version runs on it next
	}
	if err := db.Migrate(t.Context(), database); err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddedDataOfTheLastVersionIsKept(t *testing.T) {
	dir, f := readFixture(t)
	data := unpack(t, filepath.Join(dir, embeddedFile))
	snapshot, err := os.ReadFile(filepath.Join(data, "logs.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--data-dir", data}, forever...)
	n := start(t, newProgram(t), args...)
	n.wantKept(f, f.EmbeddedToken)
	n.end()

	// The logs at the time of the snapshot: the windows may have ended since.
	old := filepath.Join(t.TempDir(), "logs.snapshot")
	if err := os.WriteFile(old, snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	memory := memlog.New(memlog.Options{Now: func() time.Time { return time.UnixMilli(f.MadeAt) }})
	if err := memory.LoadFile(old); err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.New(filepath.Join(data, "stint.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := store.Policies.FindPolicyByName(t.Context(), "api")
	if err != nil {
		t.Fatal(err)
	}
	if times, _, err := memory.Timestamps(t.Context(), timestamplog.LogIDOf(policy, "token:alice"), 10); err != nil || len(times) != 3 {
		t.Errorf("the snapshot has %d requests of the key, %v, want 3", len(times), err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	wantDownAndUp(t, filepath.Join(data, "stint.db"), f)
	program := newProgram(t)
	if *oldProgram != "" {
		program = *oldProgram
	}
	start(t, program, args...).wantKept(f, f.EmbeddedToken)
}

func TestSharedDataOfTheLastVersionIsKept(t *testing.T) {
	dir, f := readFixture(t)
	cache := redisFrom(t, readGzip(t, filepath.Join(dir, redisFile)), time.UnixMilli(f.MadeAt))
	database := postgresFrom(t, filepath.Join(dir, postgresFile))
	args := append([]string{"--redis-url", cache.URL, "--database-url", database.URL, "--check-deadline", "10s"}, forever...)
	n := start(t, newProgram(t), args...)
	n.wantKept(f, f.SharedToken)
	n.wantLimits()
	n.end()
	wantDownAndUp(t, database.URL, f)
	program := newProgram(t)
	if *oldProgram != "" {
		program = *oldProgram
	}
	after := start(t, program, args...)
	after.wantKept(f, f.SharedToken)
	after.wantLimits()
}

// BenchmarkBothVersionsSideBySide upgrades one node of two while both answer checks: together
// they allow exactly what the policies say. It fails otherwise, and measures nothing: make
// test-upgrade runs it, which builds the last released version, and go test without -bench
// does not.
func BenchmarkBothVersionsSideBySide(t *testing.B) {
	if *oldProgram == "" {
		t.Fatal("it needs -old; run make test-upgrade")
	}
	t.ReportMetric(0, "ns/op") // which would say nothing
	cache, database := servers.Redis(t), servers.Postgres(t)
	args := []string{"--redis-url", cache.URL, "--redis-prefix", cache.Prefix, "--database-url", database.URL, "--check-deadline", "10s"}
	old := []*node{start(t, *oldProgram, args...), start(t, *oldProgram, args...)}
	for name, body := range map[string]string{
		"exact": `{"match":["token:*"],"rules":["400/1h"]}`, "fixed": `{"match":["user:*"],"rules":["400/1d"],"algorithm":"fixed_window"}`,
	} {
		do[any](old[0], http.MethodPut, "/v1/policies/"+name, body)
	}
	servers.Await(t, "the second node knows the policies", func() bool { return old[1].mustAsk(`{"key":"user:x","peek":true}`).Policy == "fixed" })
	var nodes sync.Map // those that are asked, by their number
	nodes.Store(0, old[0])
	nodes.Store(1, old[1])
	allowed := map[string]*atomic.Int64{"token:load": {}, "user:load": {}}
	const clients, each = 6, 200
	var group sync.WaitGroup
	half := make(chan struct{})
	var asked atomic.Int64
	for c := range clients {
		group.Go(func() {
			for i := range each {
				if asked.Add(1) == clients*each/2 {
					close(half)
				}
				found, _ := nodes.Load((c + i) % 2)
				for key, count := range allowed {
					d, err := found.(*node).ask(`{"key":"` + key + `","detail":"none"}`)
					switch {
					case err != nil || d.Degraded:
						t.Errorf("%s is answered %+v, %v", key, d, err)
						return
					case d.Decision == "allowed":
						count.Add(1)
					}
				}
				time.Sleep(5 * time.Millisecond) // the load is paced
			}
		})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); group.Wait() }()
	select {
	case <-half:
	case <-ended: // each has reported why
		t.FailNow()
	}
	upgraded := start(t, newProgram(t), args...) // it migrates while the old ones answer
	nodes.Store(1, upgraded)
	group.Wait()
	for key, count := range allowed {
		if count.Load() != 400 {
			t.Errorf("%s was allowed %d times, want exactly 400", key, count.Load())
		}
	}
	// What either changes, the other knows.
	do[any](upgraded, http.MethodPost, "/v1/blocks", `{"pattern":"host:new","reason":"by the new version"}`)
	servers.Await(t, "the old node knows a block of the new one", func() bool { return old[0].mustAsk(`{"key":"host:new","peek":true}`).Decision == "blocked" })
	do[any](old[0], http.MethodPost, "/v1/blocks", `{"pattern":"host:old","reason":"by the old version"}`)
	servers.Await(t, "the new node knows a block of the old one", func() bool { return upgraded.mustAsk(`{"key":"host:old","peek":true}`).Decision == "blocked" })
}
